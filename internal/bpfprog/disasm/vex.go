package disasm

import (
	"encoding/binary"
	"fmt"
	"strings"

	"golang.org/x/arch/x86/x86asm"
)

// vector is an instruction with a VEX or EVEX prefix (Intel SDM, volume 2, 2.3 and 2.7), which x86asm does not know: AVX, AVX2,
// AVX-512 and BMI. Its fields are those of the encoding.
type vector struct {
	evex   bool
	opmap  byte // 1: 0F, 2: 0F38, 3: 0F3A
	pp     byte // implied prefix: none, 66, F3, F2
	w      bool
	length byte // of the vectors: 16 bytes << length
	r, x   byte // bit 3 of registers in ModRM and SIB; of EVEX, also bit 4
	b      byte
	vvvv   byte
	mask   byte // EVEX: the mask register; 0 for none
	zero   bool // elements that the mask excludes become 0
	bcast  bool // the operand is one element for all, or the instruction rounds

	opcode byte
	modrm  byte
	rest   []byte // from ModRM on
	memory string // the operand in memory; empty if it is a register
	size   int    // of ModRM, SIB and displacement
}

// vexed decodes an instruction with a VEX or EVEX prefix. It returns false if the code does not begin with a complete one. Instructions that are
// not in the table of operations have their length, but no text.
func vexed(code []byte) (i Instruction, ok bool) {
	v, at, ok := vexPrefix(code)
	if !ok || at >= len(code) {
		return i, false
	}
	v.opcode = code[at]
	at++
	if !v.evex && v.opmap == 1 && v.opcode == 0x77 {
		return Instruction{Code: code[:at], Text: [2]string{"vzeroupper", "vzeroall"}[v.length&1]}, true
	}
	if at >= len(code) {
		return i, false
	}
	v.modrm, v.rest = code[at], code[at:]
	op := operations()[operation{v.evex, v.opmap, v.pp, v.opcode}]
	if op == "" && v.evex {
		op = operations()[operation{false, v.opmap, v.pp, v.opcode}]
	}
	form, scale, _ := strings.Cut(op, "@")
	if !v.operand(scale) {
		return i, false
	}
	at += v.size
	var immediate byte
	if v.hasImmediate() {
		if at >= len(code) {
			return i, false
		}
		immediate = code[at]
		at++
	}
	text := v.text(form, immediate)
	if text == "" {
		prefix := "vex"
		if v.evex {
			prefix = "evex"
		}
		text = fmt.Sprintf("(%s.%s%02x)", prefix, [4]string{"", "0f", "0f38", "0f3a"}[v.opmap], v.opcode)
	}
	return Instruction{Code: code[:at], Text: text}, true
}

func vexPrefix(code []byte) (v vector, size int, ok bool) {
	bit := func(b byte, n int) byte { return b >> n & 1 }
	switch {
	case len(code) >= 2 && code[0] == 0xc5:
		p := code[1]
		v = vector{opmap: 1, r: bit(^p, 7) << 3, vvvv: ^p >> 3 & 15, length: bit(p, 2), pp: p & 3}
		return v, 2, true
	case len(code) >= 3 && code[0] == 0xc4:
		p, q := code[1], code[2]
		v = vector{opmap: p & 31, r: bit(^p, 7) << 3, x: bit(^p, 6) << 3, b: bit(^p, 5) << 3,
			w: bit(q, 7) == 1, vvvv: ^q >> 3 & 15, length: bit(q, 2), pp: q & 3}
		return v, 3, v.opmap >= 1 && v.opmap <= 3
	case len(code) >= 4 && code[0] == 0x62:
		p, q, s := code[1], code[2], code[3]
		v = vector{evex: true, opmap: p & 7, r: bit(^p, 7)<<3 | bit(^p, 4)<<4, x: bit(^p, 6) << 3, b: bit(^p, 5) << 3,
			w: bit(q, 7) == 1, vvvv: ^q>>3&15 | bit(^s, 3)<<4, pp: q & 3,
			zero: bit(s, 7) == 1, length: s >> 5 & 3, bcast: bit(s, 4) == 1, mask: s & 7}
		return v, 4, bit(p, 3) == 0 && bit(q, 2) == 1 && v.opmap >= 1 && v.opmap <= 3
	}
	return v, 0, false
}

// hasImmediate reports whether the instruction has an immediate: all of map 0F3A have one, and some of map 0F.
func (v *vector) hasImmediate() bool {
	switch v.opmap {
	case 3:
		return true
	case 1:
		return v.opcode >= 0x70 && v.opcode <= 0x73 || v.opcode == 0xc2 || v.opcode >= 0xc4 && v.opcode <= 0xc6
	}
	return false
}

// operand finds the length of the operand of ModRM, and its text if it is in memory: x86asm decodes a LEA with the same bytes. With EVEX, the
// unit of an 8-bit displacement is the size of the operand in memory.
func (v *vector) operand(scale string) bool {
	if v.modrm>>6 == 3 {
		v.size = 1
		return true
	}
	lea := append([]byte{0x48 | v.x>>2&2 | v.b>>3&1, 0x8d}, v.rest[:min(len(v.rest), 6)]...)
	inst, err := x86asm.Decode(lea, 64)
	if err != nil {
		return false
	}
	v.size = inst.Len - 2
	memory, ok := inst.Args[1].(x86asm.Mem)
	if !ok {
		return false
	}
	if v.evex && v.modrm>>6 == 1 {
		memory.Disp *= v.unit(scale)
	}
	v.memory = memoryText(memory)
	return true
}

// memoryText returns an operand in memory, in GNU's syntax.
func memoryText(m x86asm.Mem) string {
	var s strings.Builder
	switch displacement := int64(int32(m.Disp)); { // x86asm does not sign-extend all of them
	case displacement < 0:
		fmt.Fprintf(&s, "-%#x", -displacement)
	case displacement > 0 || m.Base == 0:
		fmt.Fprintf(&s, "%#x", displacement)
	}
	name := func(r x86asm.Reg) string { return "%" + strings.ToLower(r.String()) }
	switch {
	case m.Index != 0 && m.Base != 0:
		fmt.Fprintf(&s, "(%s,%s,%d)", name(m.Base), name(m.Index), m.Scale)
	case m.Index != 0:
		fmt.Fprintf(&s, "(,%s,%d)", name(m.Index), m.Scale)
	case m.Base != 0:
		fmt.Fprintf(&s, "(%s)", name(m.Base))
	}
	return s.String()
}

// unit returns the size of the operand in memory.
func (v *vector) unit(scale string) int64 {
	element := int64(4)
	if v.w {
		element = 8
	}
	switch scale {
	case "1", "2", "4", "8", "16", "32":
		var n int64
		fmt.Sscan(scale, &n)
		return n
	case "s":
		return element
	case "half":
		return 8 << v.length
	}
	if v.bcast {
		return element
	}
	return 16 << v.length
}

// text returns the instruction as its form describes it: the name, and the operands in GNU's order. NAME/NAME are the names for W0 and W1,
// NAME|NAME those for VEX and EVEX, and a list in brackets has a name for each value of ModRM's reg.
//
//	m r v   a vector, from ModRM's rm, its reg, or vvvv
//	_x _y   a vector of 16 or 32 bytes; _g a general register of the size that W selects; _d one of 32 bits; _k a mask
//	vM      a vector from vvvv, if rm is not in memory
//	i s     the immediate: a number, or a register in its upper half
func (v *vector) text(form string, immediate byte) string {
	if form == "" {
		return ""
	}
	name, operands, _ := strings.Cut(form, " ")
	if list, ok := strings.CutPrefix(name, "["); ok {
		names := strings.Split(strings.TrimSuffix(list, "]"), ",")
		if n := int(v.modrm >> 3 & 7); n < len(names) {
			name = names[n]
		} else {
			name = ""
		}
	}
	name = either(name, "|", v.evex)
	name = either(name, "/", v.w)
	if name == "" {
		return ""
	}
	var all []string
	for o := range strings.SplitSeq(operands, ",") {
		o = either(o, "|", v.evex)
		if o == "" || o == "vM" && v.memory != "" {
			continue
		}
		all = append(all, v.operandText(o, immediate))
	}
	last := len(all) - 1
	if v.mask != 0 && last >= 0 {
		all[last] += fmt.Sprintf("{%%k%d}", v.mask)
		if v.zero {
			all[last] += "{z}"
		}
	}
	if last < 0 {
		return name
	}
	return name + " " + strings.Join(all, ",")
}

// either returns the part of a name that applies.
func either(s, sep string, second bool) string {
	a, b, ok := strings.Cut(s, sep)
	if ok && second {
		return b
	}
	return a
}

func (v *vector) operandText(o string, immediate byte) string {
	class := byte(0)
	if len(o) > 1 {
		class = o[1]
	}
	switch o[0] {
	case 'i':
		return fmt.Sprintf("$0x%x", immediate)
	case 's':
		return v.register(class, immediate>>4)
	case 'v':
		return v.register(class, v.vvvv)
	case 'r':
		return v.register(class, v.modrm>>3&7|v.r)
	}
	if v.memory == "" {
		n := v.modrm&7 | v.b
		if v.evex && class != 'g' && class != 'd' && class != 'k' {
			n |= v.x << 1
		}
		return v.register(class, n)
	}
	if v.evex && v.bcast {
		elements := int(16<<v.length) / 4
		if v.w {
			elements /= 2
		}
		return fmt.Sprintf("%s{1to%d}", v.memory, elements)
	}
	return v.memory
}

func (v *vector) register(class, n byte) string {
	switch class {
	case 'g':
		return x86Register(int(n&15), v.w)
	case 'd':
		return x86Register(int(n&15), false)
	case 'k':
		return fmt.Sprintf("%%k%d", n&7)
	case 'x', 'M':
		return fmt.Sprintf("%%xmm%d", n)
	case 'y':
		return fmt.Sprintf("%%ymm%d", n)
	}
	return fmt.Sprintf("%%%cmm%d", "xyzz"[v.length&3], n)
}

// legacy decodes the instructions without such a prefix that x86asm does not know: ADCX and ADOX.
func legacy(code []byte) (i Instruction, ok bool) {
	if len(code) < 5 || code[0] != 0x66 && code[0] != 0xf3 {
		return i, false
	}
	at, rex := 1, byte(0)
	if code[1]>>4 == 4 {
		at, rex = 2, code[1]
	}
	if len(code) < at+4 || binary.BigEndian.Uint32(code[at-1:])&0xffffff != 0x0f38f6 {
		return i, false
	}
	at += 3
	v := vector{opmap: 2, w: rex>>3&1 == 1, r: rex >> 2 & 1 << 3, x: rex >> 1 & 1 << 3, b: rex & 1 << 3, modrm: code[at], rest: code[at:]}
	if !v.operand("") {
		return i, false
	}
	name := "adcx"
	if code[0] == 0xf3 {
		name = "adox"
	}
	return Instruction{Code: code[:at+v.size], Text: v.text(name+" mg,rg", 0)}, true
}
