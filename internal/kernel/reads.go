package kernel

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// readsRefused reports whether the kernel refuses the helpers with which BPF programs read its memory, as it does with
// lockdown=confidentiality (LOCKDOWN_BPF_READ_KERNEL of include/linux/security.h). It loads a program to find out, because containers often
// do not mount the file of the lockdown module. The program calls bpf_probe_read, the oldest of the helpers, because the library replaces
// bpf_probe_read_kernel with it where that is refused.
func readsRefused() bool {
	p, err := ebpf.NewProgramWithOptions(&ebpf.ProgramSpec{
		Type:    ebpf.RawTracepoint,
		License: "GPL",
		Instructions: asm.Instructions{
			asm.Mov.Reg(asm.R1, asm.R10),
			asm.Add.Imm(asm.R1, -8),
			asm.Mov.Imm(asm.R2, 8),
			asm.Mov.Imm(asm.R3, 0),
			asm.FnProbeRead.Call(),
			asm.Mov.Imm(asm.R0, 0),
			asm.Return(),
		},
	}, ebpf.ProgramOptions{LogDisabled: true})
	if err == nil {
		p.Close()
	}
	return errors.Is(err, unix.EINVAL) // a lack of privileges gives another error
}

var errReadsRefused = errors.New("with lockdown=confidentiality, BPF programs need Linux 6.2 or later to read the kernel's memory (bpf_rdonly_cast): " +
	"boot a newer kernel, or without lockdown=confidentiality")

// haveTypedReads fails if the kernel lacks bpf_rdonly_cast (Linux 6.2).
func haveTypedReads() error {
	types, err := btf.LoadKernelSpec()
	if err != nil {
		return fmt.Errorf("read the types of the kernel: %w", err)
	}
	var cast *btf.Func
	if err := types.TypeByName(rdonlyCast, &cast); errors.Is(err, btf.ErrNotFound) {
		return errReadsRefused
	} else if err != nil {
		return fmt.Errorf("read the types of the kernel: %w", err)
	}
	return nil
}

const rdonlyCast = "bpf_rdonly_cast"

// PrepareReads adapts programs that use kernel_read of bpf/kernel.h to the running kernel. They read the kernel's memory with the helper
// bpf_probe_read_kernel, or where the kernel refuses that, with bpf_rdonly_cast. PrepareReads fails if the kernel allows neither.
func PrepareReads(programs map[string]*ebpf.ProgramSpec) error {
	if !readsRefused() {
		drop(programs, rdonlyCast)
		return nil
	}
	keepUserReads(programs)
	return haveTypedReads()
}

// keepUserReads hides calls of bpf_probe_read_user from cilium/ebpf. Where bpf_probe_read_kernel is refused, the library replaces both
// helpers, although bpf_probe_read_user is never refused. The library does not recognize a call with a destination register. The one set
// here has no effect, because the library encodes only its lowest four bits.
func keepUserReads(programs map[string]*ebpf.ProgramSpec) {
	for _, p := range programs {
		for i := range p.Instructions {
			if ins := &p.Instructions[i]; ins.IsBuiltinCall() && asm.BuiltinFunc(ins.Constant) == asm.FnProbeReadUser {
				ins.Dst = 1 << 4
			}
		}
	}
}
