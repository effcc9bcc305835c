package disasm

import (
	"bytes"
	"fmt"

	"golang.org/x/arch/x86/x86asm"
)

func x86(code []byte, address uint64) []Instruction {
	var all []Instruction
	for len(code) > 0 {
		i := x86One(code, address)
		i.Address, i.Code = address, code[:len(i.Code)]
		all = append(all, i)
		code, address = code[len(i.Code):], address+uint64(len(i.Code))
	}
	return all
}

// x86One decodes the first instruction. Some that the JIT compiler emits are unknown to x86asm: ENDBR64, which marks targets of
// indirect branches, and the shifts of BMI2.
func x86One(code []byte, address uint64) Instruction {
	if bytes.HasPrefix(code, []byte{0xf3, 0x0f, 0x1e, 0xfa}) {
		return Instruction{Code: code[:4], Text: "endbr64"}
	}
	if text := x86Shift(code); text != "" {
		return Instruction{Code: code[:5], Text: text}
	}
	inst, err := x86asm.Decode(code, 64)
	if err != nil || inst.Op == 0 || inst.Len == 0 { // prefixes alone are no error
		return Instruction{Code: code[:1], Text: "(bad)"}
	}
	i := Instruction{Code: code[:inst.Len], Text: x86asm.GNUSyntax(inst, address, nil)}
	if rel, ok := inst.Args[0].(x86asm.Rel); ok {
		i.Target = address + uint64(inst.Len) + uint64(int64(rel))
	}
	return i
}

// x86Shift decodes SHLX, SARX and SHRX between registers (Intel SDM, volume 2): a VEX prefix of 3 bytes for map 0F38, F7, ModRM.
func x86Shift(code []byte) string {
	if len(code) < 5 || code[0] != 0xc4 || code[1]&0x1f != 2 || code[3] != 0xf7 || code[4]>>6 != 3 || code[2]&4 != 0 {
		return ""
	}
	op := [4]string{"", "shlx", "sarx", "shrx"}[code[2]&3]
	if op == "" {
		return ""
	}
	wide := code[2]>>7 == 1
	reg := func(low, inverted byte) string {
		return x86Register(int(low&7)|int(^inverted&1)<<3, wide)
	}
	count := x86Register(int(^(code[2]>>3)&15), wide)
	to, from := reg(code[4]>>3, code[1]>>7), reg(code[4], code[1]>>5)
	return fmt.Sprintf("%s %s,%s,%s", op, count, from, to)
}

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
