package disasm

import (
	"bytes"
	"fmt"
	"slices"

	"golang.org/x/arch/x86/x86asm"
)

func x86(code []byte, address uint64, s syntax) []Instruction {
	var all []Instruction
	for len(code) > 0 {
		i := x86One(code, address, s)
		i.Address, i.Code = address, code[:len(i.Code)]
		all = append(all, i)
		code, address = code[len(i.Code):], address+uint64(len(i.Code))
	}
	return all
}

// x86One decodes the first instruction. x86asm does not know ENDBR64, which marks targets of indirect branches, nor any instruction with a
// VEX or EVEX prefix. Of these, the JIT compiler emits the shifts of BMI2.
func x86One(code []byte, address uint64, s syntax) Instruction {
	if bytes.HasPrefix(code, []byte{0xf3, 0x0f, 0x1e, 0xfa}) {
		return Instruction{Code: code[:4], Text: "endbr64"}
	}
	if i, ok := vexed(code); ok {
		i.Text = s.other(i.Text)
		return i
	}
	if i, ok := legacy(code); ok {
		i.Text = s.other(i.Text)
		return i
	}
	inst, err := x86asm.Decode(code, 64)
	if err != nil || inst.Op == 0 || inst.Len == 0 { // prefixes alone are no error
		return Instruction{Code: code[:1], Text: "(bad)"}
	}
	i := Instruction{Code: code[:inst.Len], Text: s.decoded(inst, address), Transfers: slices.Contains(x86Transfers, inst.Op)}
	if rel, ok := inst.Args[0].(x86asm.Rel); ok {
		i.Target = address + uint64(inst.Len) + uint64(int64(rel))
	}
	return i
}

// x86Transfers are the instructions after which the next one in memory is never the next to run.
var x86Transfers = []x86asm.Op{x86asm.JMP, x86asm.LJMP, x86asm.CALL, x86asm.LCALL, x86asm.RET, x86asm.LRET, x86asm.IRET, x86asm.IRETD, x86asm.IRETQ,
	x86asm.INT, x86asm.SYSCALL, x86asm.SYSRET, x86asm.SYSENTER, x86asm.SYSEXIT}

func x86Register(n int, wide bool) string {
	names := [8]string{"ax", "cx", "dx", "bx", "sp", "bp", "si", "di"}
	switch {
	case n >= 8 && wide:
		return fmt.Sprintf("%%r%d", n)
	case n >= 8:
		return fmt.Sprintf("%%r%dd", n)
	case wide:
		return "%r" + names[n]
	}
	return "%e" + names[n]
}
