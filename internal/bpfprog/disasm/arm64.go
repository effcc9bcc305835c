package disasm

import (
	"encoding/binary"
	"fmt"
	"strings"

	"golang.org/x/arch/arm64/arm64asm"
)

func arm64(code []byte, address uint64) []Instruction {
	var all []Instruction
	for len(code) > 0 {
		n := min(4, len(code))
		i := arm64One(code[:n], address)
		i.Address, i.Code = address, code[:n]
		all = append(all, i)
		code, address = code[n:], address+4
	}
	return all
}

// arm64One decodes an instruction. arm64asm does not know some of those that the JIT compiler emits, and knows others only as hints.
func arm64One(code []byte, address uint64) Instruction {
	if len(code) < 4 {
		return Instruction{Text: "(bad)"}
	}
	word := binary.LittleEndian.Uint32(code)
	if word&0xfffff01f == 0xd503201f {
		if text := arm64Hints[word>>5&0x7f]; text != "" {
			return Instruction{Text: text}
		}
	}
	if text := arm64Atomic(word); text != "" {
		return Instruction{Text: text}
	}
	inst, err := arm64asm.Decode(code)
	if err != nil {
		return Instruction{Text: "(bad)"}
	}
	text, transfers := strings.TrimSpace(arm64asm.GNUSyntax(inst)), arm64Transfers(inst)
	for _, arg := range inst.Args {
		if rel, ok := arg.(arm64asm.PCRel); ok {
			target := address + uint64(int64(rel))
			if at := strings.LastIndex(text, ".+"); at >= 0 {
				text = text[:at] + fmt.Sprintf("%#x", target)
			}
			return Instruction{Text: text, Target: target, Transfers: transfers}
		}
	}
	return Instruction{Text: text, Transfers: transfers}
}

// arm64Transfers reports whether the instruction that follows in memory is never the next to run.
func arm64Transfers(inst arm64asm.Inst) bool {
	switch inst.Op {
	case arm64asm.B:
		_, conditional := inst.Args[0].(arm64asm.Cond)
		return !conditional
	case arm64asm.BL, arm64asm.BR, arm64asm.BLR, arm64asm.RET, arm64asm.ERET, arm64asm.SVC:
		return true
	}
	return false
}

// arm64Hints are the hints for pointer authentication and branch targets (Arm ARM, C6.2, HINT).
var arm64Hints = map[uint32]string{
	25: "paciasp", 27: "pacibsp", 29: "autiasp", 31: "autibsp", 32: "bti", 34: "bti c", 36: "bti j", 38: "bti jc",
}

// arm64Atomic decodes the atomic instructions of the Large System Extensions (Arm ARM, C4.1, atomic memory operations, and
// compare and swap), for words and doublewords.
func arm64Atomic(word uint32) string {
	size, rs, rn, rt := word>>30, word>>16&31, word>>5&31, word&31
	register := func(n uint32) string {
		prefix := "w"
		if size == 3 {
			prefix = "x"
		}
		if n == 31 {
			return prefix + "zr"
		}
		return fmt.Sprint(prefix, n)
	}
	base := fmt.Sprint("[x", rn, "]")
	if rn == 31 {
		base = "[sp]"
	}
	name, order := "", ""
	switch {
	case size < 2:
		return ""
	case word&0x3f200c00 == 0x38200000: // size 111000 A R 1 Rs o3 opc 00 Rn Rt
		ops := [16]string{0: "ldadd", 1: "ldclr", 2: "ldeor", 3: "ldset", 4: "ldsmax", 5: "ldsmin", 6: "ldumax", 7: "ldumin", 8: "swp"}
		name = ops[word>>12&15]
		order = arm64Order(word>>23&1, word>>22&1)
		if name != "swp" && rt == 31 && word>>23&1 == 0 && name != "" { // the old value is discarded
			return fmt.Sprintf("st%s%s %s, %s", name[2:], order, register(rs), base)
		}
	case word&0x3fa07c00 == 0x08a07c00: // size 0010001 L 1 Rs o0 11111 Rn Rt
		name = "cas"
		order = arm64Order(word>>22&1, word>>15&1)
	}
	if name == "" {
		return ""
	}
	return fmt.Sprintf("%s%s %s, %s, %s", name, order, register(rs), register(rt), base)
}

// arm64Order returns the suffix for acquire and release.
func arm64Order(acquire, release uint32) string {
	return strings.Repeat("a", int(acquire)) + strings.Repeat("l", int(release))
}
