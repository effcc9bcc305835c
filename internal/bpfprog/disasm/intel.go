package disasm

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/arch/x86/x86asm"

	"github.com/bperf/bperf/internal/pattern"
)

// Styles are the syntaxes of x86 instructions: AT&T's, which the GNU tools print by default, and Intel's.
var Styles = []string{"att", "intel"}

// InStyle returns the disassembler for an architecture in one of Styles. Architectures other than amd64 have a single style, and ignore it.
func InStyle(arch, style string) (Func, error) {
	if arch == "amd64" && style == "intel" {
		return func(code []byte, address uint64) []Instruction { return x86(code, address, intel) }, nil
	}
	return For(arch)
}

// syntax turns instructions of x86 into text.
type syntax struct {
	decoded func(inst x86asm.Inst, address uint64) string
	other   func(gnu string) string // of instructions that x86asm does not know, from AT&T's syntax
}

var att = syntax{
	decoded: func(inst x86asm.Inst, address uint64) string { return x86asm.GNUSyntax(inst, address, nil) },
	other:   func(gnu string) string { return gnu },
}

var intel = syntax{
	decoded: func(inst x86asm.Inst, address uint64) string {
		text := likeObjdump(x86asm.IntelSyntax(inst, address, nil))
		if inst.Op == x86asm.NOP {
			text, _, _ = strings.Cut(text, ",") // objdump leaves out the register
		}
		return text
	},
	other: toIntel,
}

// Parts of x86asm's text that objdump writes in another way.
var (
	pointer   = pattern.Lazy(`\b[a-z]+ ptr\b`)
	unscaled  = pattern.Lazy(`\[(\w+)\+([a-z]\w*)([-+\]])`)
	scaled    = pattern.Lazy(`\b([248])\*([a-z]\w*)`)
	absolute  = pattern.Lazy(`(\w\w:)?\[(0x[0-9a-f]+)?\]`)
	negative  = pattern.Lazy(`\+0x(f[0-9a-f]{7})\]`) // a displacement that x86asm did not sign-extend
	condition = pattern.Lazy(`^(j|set|cmov)(nz|z|nbe|nb|nle|nl)\b`)
)

// conditions are objdump's names of conditions that x86asm gives other names.
var conditions = map[string]string{"z": "e", "nz": "ne", "nb": "ae", "nbe": "a", "nl": "ge", "nle": "g"}

// likeObjdump writes Intel's syntax as objdump -M intel does: other names of some conditions, no blanks after commas, sizes in capitals, the
// scale after each index, and absolute addresses without brackets.
func likeObjdump(text string) string {
	text = strings.ReplaceAll(strings.ReplaceAll(text, ", ", ","), ",ptr [", ",[")
	text = pointer().ReplaceAllStringFunc(text, strings.ToUpper)
	if m := condition().FindStringSubmatch(text); m != nil {
		text = m[1] + conditions[m[2]] + text[len(m[0]):]
	}
	text = unscaled().ReplaceAllString(scaled().ReplaceAllString(text, "$2*$1"), "[$1+$2*1$3")
	text = absolute().ReplaceAllStringFunc(text, absoluteAddress)
	return negative().ReplaceAllStringFunc(text, negativeDisplacement)
}

func absoluteAddress(operand string) string {
	m := absolute().FindStringSubmatch(operand)
	return cmp.Or(m[1], "ds:") + cmp.Or(m[2], "0x0")
}

func negativeDisplacement(end string) string {
	n, _ := strconv.ParseUint(negative().FindStringSubmatch(end)[1], 16, 32)
	return fmt.Sprintf("-%#x]", -int64(int32(n)))
}

// memory is an operand in memory in AT&T's syntax: a displacement, a base, an index and its scale. What follows it is a broadcast or a mask.
var memory = pattern.Lazy(`^(-?0x[0-9a-f]+)?\((%\w+)?(?:,(%\w+),(\d))?\)(.*)$`)

// toIntel turns AT&T's syntax into Intel's: operands from the destination on, without marks of registers and numbers. Operands in memory
// have no sizes, which the registers beside them show.
func toIntel(gnu string) string {
	name, list, has := strings.Cut(gnu, " ")
	if !has {
		return gnu
	}
	operands := splitOperands(list)
	slices.Reverse(operands)
	for i, o := range operands {
		if m := memory().FindStringSubmatch(o); m != nil {
			o = intelMemory(m[1], m[2], m[3], m[4]) + m[5]
		}
		operands[i] = strings.NewReplacer("%", "", "$", "").Replace(o)
	}
	return name + " " + strings.Join(operands, ",")
}

func intelMemory(displacement, base, index, scale string) string {
	var parts []string
	if base != "" {
		parts = append(parts, base)
	}
	if index != "" {
		parts = append(parts, fmt.Sprintf("%s*%s", index, scale))
	}
	address := strings.Join(parts, "+")
	if displacement != "" && !strings.HasPrefix(displacement, "-") && address != "" {
		address += "+"
	}
	return "[" + address + displacement + "]"
}

// splitOperands splits a list at the commas outside of parentheses.
func splitOperands(list string) (operands []string) {
	depth, start := 0, 0
	for i, c := range list {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth == 0:
			operands = append(operands, list[start:i])
			start = i + 1
		}
	}
	return append(operands, list[start:])
}
