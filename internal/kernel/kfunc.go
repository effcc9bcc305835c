package kernel

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
)

// DropMissing removes a weak kfunc from programs if the running kernel (not its modules) lacks it: its address becomes 0, which makes its
// calls dead code. The library does the same, but for each instruction it first searches the types of all modules, and to find these it
// walks all loaded BPF programs.
func DropMissing(programs map[string]*ebpf.ProgramSpec, kfunc string, types *btf.Cache) error {
	spec, err := types.Kernel()
	if err != nil {
		return fmt.Errorf("read the types of the kernel: %w", err)
	}
	var f *btf.Func
	if err := spec.TypeByName(kfunc, &f); !errors.Is(err, btf.ErrNotFound) {
		return err
	}
	drop(programs, kfunc)
	return nil
}

func drop(programs map[string]*ebpf.ProgramSpec, kfunc string) {
	for _, p := range programs {
		for i := range p.Instructions {
			switch ins := &p.Instructions[i]; {
			case ins.Reference() != kfunc:
			case ins.IsKfuncCall():
				*ins = asm.Mov.Imm(asm.R0, 0)
			case ins.OpCode.IsDWordLoad():
				*ins = asm.LoadImm(ins.Dst, 0, asm.DWord)
			}
		}
	}
}
