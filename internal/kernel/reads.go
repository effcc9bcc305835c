package kernel

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// readsRefused reports whether the kernel refuses BPF programs the helpers that read its memory, as it does in lockdown=confidentiality
// (LOCKDOWN_BPF_READ_KERNEL of include/linux/security.h). The lockdown module's own file is often not mounted in containers, so a program is loaded. It calls
// the oldest of the helpers, which the library puts in the place of bpf_probe_read_kernel where that is refused.
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
	return errors.Is(err, unix.EINVAL) // unlike what this process may not do
}

var errReadsRefused = errors.New("with lockdown=confidentiality, BPF programs can read the kernel's memory from Linux 6.2 on (bpf_rdonly_cast): " +
	"boot a newer kernel, or without lockdown=confidentiality")

// haveTypedReads fails if the kernel does not have bpf_rdonly_cast (Linux 6.2).
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

// PrepareReads lets programs with kernel_read of bpf/kernel.h read the kernel's memory in the way that the running kernel allows: with the helper
// bpf_probe_read_kernel, or where that is refused, with bpf_rdonly_cast. It fails if the kernel has neither.
func PrepareReads(programs map[string]*ebpf.ProgramSpec) error {
	if !readsRefused() {
		drop(programs, rdonlyCast)
		return nil
	}
	keepUserReads(programs)
	return haveTypedReads()
}

// keepUserReads hides calls of bpf_probe_read_user, which is never refused, from cilium/ebpf: where bpf_probe_read_kernel is refused, it replaces both.
// A call has no destination; of the one that is set here the library writes the lowest four bits.
func keepUserReads(programs map[string]*ebpf.ProgramSpec) {
	for _, p := range programs {
		for i := range p.Instructions {
			if ins := &p.Instructions[i]; ins.IsBuiltinCall() && asm.BuiltinFunc(ins.Constant) == asm.FnProbeReadUser {
				ins.Dst = 1 << 4
			}
		}
	}
}
