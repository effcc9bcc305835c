package kernel

import (
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/bperf/bperf/test/require"
)

// TestDropMissing loads a program that calls a kfunc if its address is not 0. No kernel has that kfunc.
func TestDropMissing(t *testing.T) {
	require.Root(t)
	const missing, other = "bperf_no_such_kfunc", "bperf_another"
	address := func(name string) asm.Instruction { return asm.LoadImm(asm.R1, 1, asm.DWord).WithReference(name) }
	call := func(name string) asm.Instruction {
		return asm.Instruction{OpCode: asm.OpCode(asm.JumpClass).SetJumpOp(asm.Call), Src: asm.PseudoKfuncCall, Constant: -1}.WithReference(name)
	}
	programs := map[string]*ebpf.ProgramSpec{
		"both": {Type: ebpf.SocketFilter, License: "GPL", Instructions: asm.Instructions{
			address(missing),
			asm.Mov.Imm(asm.R0, 7),
			asm.JEq.Imm(asm.R1, 0, "end"),
			call(missing),
			asm.Return().WithSymbol("end"),
		}},
		"other": {Instructions: asm.Instructions{address(other), call(other)}},
	}
	if err := DropMissing(programs, missing, btf.NewCache()); err != nil {
		t.Fatal(err)
	}
	p, err := ebpf.NewProgram(programs["both"])
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if got, err := p.Run(&ebpf.RunOptions{Data: make([]byte, 64)}); got != 7 || err != nil {
		t.Errorf("the program returns %d, %v; want 7", got, err)
	}
	if left := programs["other"].Instructions; left[0].Constant != 1 || !left[1].IsKfuncCall() {
		t.Errorf("another kfunc was removed: %v", left)
	}
}

// TestDropMissingKeeps uses a kfunc that the kernel has. Any function in the kernel's BTF will do.
func TestDropMissingKeeps(t *testing.T) {
	const known = "schedule"
	programs := map[string]*ebpf.ProgramSpec{"": {Instructions: asm.Instructions{asm.LoadImm(asm.R1, 1, asm.DWord).WithReference(known)}}}
	if err := DropMissing(programs, known, btf.NewCache()); err != nil {
		t.Fatal(err)
	}
	if programs[""].Instructions[0].Constant != 1 {
		t.Error("it is gone")
	}
}
