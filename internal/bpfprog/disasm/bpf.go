package disasm

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/cilium/ebpf/asm"
)

// BPF is an instruction of the BPF virtual machine (RFC 9669), with the fields of struct bpf_insn from include/uapi/linux/bpf.h.
type BPF struct {
	Slot   int   // position in the program, in units of 8 bytes
	Code   uint8 // the opcode
	Dst    uint8 // number of a register
	Src    uint8 // number of a register; of calls and 64-bit constants what Imm is: one of BPFPseudo*
	Offset int16
	Imm    int32
	High   int32 // Imm of the second slot, of a 64-bit constant
	bad    bool  // the code ends within the instruction
}

// What Imm is, in Src of a 64-bit constant (BPF_PSEUDO_*). The second field of a map's value is its offset.
const (
	BPFPseudoMap      = 1 // ID of a map
	BPFPseudoMapValue = 2
	BPFPseudoFunction = 4 // distance of a function, in slots from the next instruction
)

// What Imm is, in Src of a call.
const (
	BPFPseudoHelper = 0
	BPFPseudoCall   = 1 // function of the same program
	BPFPseudoKfunc  = 2
)

const (
	bpfSlot = 8 // bytes
	bpfWide = 0x18
	bpfCall = 0x85
)

// DecodeBPF returns the instructions of a program, as the bpf(2) commands take and return them on a little-endian machine. Each byte is in
// one instruction; a last one that is incomplete has the text "(bad)".
func DecodeBPF(code []byte) []BPF {
	all := make([]BPF, 0, len(code)/bpfSlot+1)
	for at := 0; at < len(code); {
		b := BPF{Slot: at / bpfSlot}
		if len(code)-at < bpfSlot {
			b.bad = true
			return append(all, b)
		}
		b.Code, b.Dst, b.Src = code[at], code[at+1]&15, code[at+1]>>4
		b.Offset = int16(binary.LittleEndian.Uint16(code[at+2:]))
		b.Imm = int32(binary.LittleEndian.Uint32(code[at+4:]))
		at += bpfSlot
		if b.Code == bpfWide {
			if b.bad = len(code)-at < bpfSlot; b.bad {
				return append(all, b)
			}
			b.High = int32(binary.LittleEndian.Uint32(code[at+4:]))
			at += bpfSlot
		}
		all = append(all, b)
	}
	return all
}

// IsCall reports whether it calls a function.
func (b BPF) IsCall() bool { return b.Code == bpfCall && !b.bad }

// IsWide reports whether it loads a 64-bit constant, and takes two slots.
func (b BPF) IsWide() bool { return b.Code == bpfWide && !b.bad }

// Access returns the register with the address of the memory that the instruction reads or writes, and the number of bytes: 0 if it does
// neither.
func (b BPF) Access() (register uint8, size int) {
	if b.bad {
		return 0, 0
	}
	size = map[string]int{"8": 1, "16": 2, "32": 4, "64": 8}[b.size()]
	switch class, mode := b.Code&7, b.Code&bpfModes; {
	case class == 1 && (mode == bpfMem || mode == bpfSigned):
		return b.Src, size
	case (class == 2 || class == 3) && mode == bpfMem, class == 3 && mode == bpfAtomic && b.Imm != bpfLoadAcquire:
		return b.Dst, size
	case class == 3 && mode == bpfAtomic:
		return b.Src, size
	}
	return 0, 0
}

// Helper returns the name of the kernel's helper function with this number of enum bpf_func_id; empty if it is not known.
func Helper(number int32) string {
	if number <= 0 {
		return ""
	}
	camel, known := strings.CutPrefix(asm.BuiltinFunc(number).String(), "Fn")
	if !known {
		return ""
	}
	name := []byte("bpf")
	for i := range len(camel) {
		if c := camel[i]; c >= 'A' && c <= 'Z' {
			name = append(name, '_', c|0x20)
		} else {
			name = append(name, c)
		}
	}
	return string(name)
}

// String returns the instruction in the notation of the kernel's verifier, or "(bad)" for what RFC 9669 and the kernel do not know. Jumps
// and calls within the program have a distance from the next instruction in slots, as `pc+5`.
func (b BPF) String() string {
	text := ""
	if !b.bad && b.Dst <= 10 {
		switch b.Code & 7 {
		case 0, 1:
			text = b.load()
		case 2, 3:
			text = b.store()
		case 4, 7:
			text = b.alu()
		case 5, 6:
			text = b.jump()
		}
	}
	if text == "" {
		return "(bad)"
	}
	return text
}

// bpfModes are the bits of the opcode that say how a load or store has access.
const (
	bpfModes  = 0xe0
	bpfConst  = 0x00
	bpfAbs    = 0x20
	bpfInd    = 0x40
	bpfMem    = 0x60
	bpfSigned = 0x80
	bpfFence  = 0xc0 // of a store: BPF_NOSPEC, which the verifier inserts
	bpfAtomic = 0xc0
)

var bpfSizes = [4]string{"32", "16", "8", "64"}

func (b BPF) size() string { return bpfSizes[b.Code>>3&3] }

// memory returns the operand in memory, at the register.
func (b BPF) memory(sign string, register uint8) string {
	return fmt.Sprintf("(%s%s *)(r%d %+d)", sign, b.size(), register, b.Offset)
}

// load returns the text of the classes LD and LDX.
func (b BPF) load() string {
	switch class, mode := b.Code&7, b.Code&bpfModes; {
	case b.Code == bpfWide:
		return b.constant()
	case class == 0 && mode == bpfAbs && b.size() != "64":
		return fmt.Sprintf("r0 = *(u%s *)skb[%d]", b.size(), b.Imm)
	case class == 0 && mode == bpfInd && b.size() != "64" && b.Src <= 10:
		return fmt.Sprintf("r0 = *(u%s *)skb[r%d + %d]", b.size(), b.Src, b.Imm)
	case class == 1 && mode == bpfMem && b.Src <= 10:
		return fmt.Sprintf("r%d = *%s", b.Dst, b.memory("u", b.Src))
	case class == 1 && mode == bpfSigned && b.size() != "64" && b.Src <= 10:
		return fmt.Sprintf("r%d = *%s", b.Dst, b.memory("s", b.Src))
	}
	return ""
}

// constant returns the text of a load of a 64-bit constant.
func (b BPF) constant() string {
	switch b.Src {
	case BPFPseudoMap:
		return fmt.Sprintf("r%d = map[id:%d]", b.Dst, uint32(b.Imm))
	case BPFPseudoMapValue:
		return fmt.Sprintf("r%d = map[id:%d][0]+%d", b.Dst, uint32(b.Imm), uint32(b.High))
	case BPFPseudoFunction:
		return fmt.Sprintf("r%d = subprog[%+d]", b.Dst, b.Imm)
	}
	return fmt.Sprintf("r%d = %#x", b.Dst, uint64(uint32(b.High))<<32|uint64(uint32(b.Imm)))
}

// store returns the text of the classes ST and STX.
func (b BPF) store() string {
	switch class, mode := b.Code&7, b.Code&bpfModes; {
	case class == 2 && mode == bpfMem:
		return fmt.Sprintf("*%s = %d", b.memory("u", b.Dst), b.Imm)
	case b.Code == bpfFence|2:
		return "nospec"
	case class == 3 && mode == bpfMem && b.Src <= 10:
		return fmt.Sprintf("*%s = r%d", b.memory("u", b.Dst), b.Src)
	case class == 3 && mode == bpfAtomic && b.Src <= 10:
		return b.atomic()
	}
	return ""
}

// Imm of atomic operations: the operation as in the opcode of arithmetic, and whether the old value is fetched.
const (
	bpfFetch        = 0x01
	bpfExchange     = 0xe0 | bpfFetch
	bpfCompare      = 0xf0 | bpfFetch
	bpfLoadAcquire  = 0x100
	bpfStoreRelease = 0x110
)

func (b BPF) atomic() string {
	switch b.Imm {
	case bpfLoadAcquire:
		return fmt.Sprintf("r%d = load_acquire(%s)", b.Dst, b.memory("u", b.Src))
	case bpfStoreRelease:
		return fmt.Sprintf("store_release(%s, r%d)", b.memory("u", b.Dst), b.Src)
	}
	width := map[string]string{"64": "64", "32": ""}
	suffix, is := width[b.size()]
	if !is {
		return ""
	}
	where := b.memory("u", b.Dst)
	switch b.Imm {
	case bpfExchange:
		return fmt.Sprintf("r%d = atomic%s_xchg(%s, r%d)", b.Src, suffix, where, b.Src)
	case bpfCompare:
		return fmt.Sprintf("r0 = atomic%s_cmpxchg(%s, r0, r%d)", suffix, where, b.Src)
	}
	name := map[int32]string{0: "add", 0x40: "or", 0x50: "and", 0xa0: "xor"}[b.Imm&^bpfFetch]
	switch {
	case name == "":
		return ""
	case b.Imm&bpfFetch != 0:
		return fmt.Sprintf("r%d = atomic%s_fetch_%s(%s, r%d)", b.Src, suffix, name, where, b.Src)
	}
	return fmt.Sprintf("lock *%s %s r%d", where, bpfOperators[b.Imm>>4], b.Src)
}

// bpfOperators are the operators of arithmetic, by the upper half of the opcode.
var bpfOperators = [16]string{
	"+=", "-=", "*=", "/=", "|=", "&=", "<<=", ">>=", "", "%=", "^=", "=", "s>>=", "", "", "",
}

const (
	bpfDivide  = 0x30
	bpfNegate  = 0x80
	bpfModulo  = 0x90
	bpfMove    = 0xb0
	bpfReverse = 0xd0

	bpfFromRegister = 0x08 // the second operand is a register, not Imm
)

// Offset of a move that converts an address.
const (
	bpfCast   = 1
	bpfPerCPU = -1
)

// alu returns the text of the classes ALU and ALU64.
func (b BPF) alu() string {
	letter, operation, second := "w", b.Code&0xf0, fmt.Sprint(b.Imm)
	if b.Code&7 == 7 {
		letter = "r"
	}
	register := fmt.Sprintf("%s%d", letter, b.Dst)
	if b.Code&bpfFromRegister != 0 && operation != bpfReverse {
		if b.Src > 10 {
			return ""
		}
		second = fmt.Sprintf("%s%d", letter, b.Src)
	}
	switch operation {
	case bpfReverse:
		return b.reverse()
	case bpfNegate:
		return fmt.Sprintf("%s = -%s", register, register)
	case bpfMove:
		if b.Code&bpfFromRegister != 0 && b.Offset != 0 {
			return b.convert(register, second)
		}
	case bpfDivide, bpfModulo:
		if b.Offset == 1 {
			return fmt.Sprintf("%s s%s %s", register, bpfOperators[operation>>4], second)
		}
	}
	if bpfOperators[operation>>4] == "" {
		return ""
	}
	return fmt.Sprintf("%s %s %s", register, bpfOperators[operation>>4], second)
}

// reverse returns the text of a byte swap.
func (b BPF) reverse() string {
	if b.Imm != 16 && b.Imm != 32 && b.Imm != 64 {
		return ""
	}
	name := "le"
	switch {
	case b.Code&7 == 7:
		name = "bswap"
	case b.Code&bpfFromRegister != 0:
		name = "be"
	}
	return fmt.Sprintf("r%d = %s%d r%d", b.Dst, name, b.Imm, b.Dst)
}

// convert returns the text of a move that extends a sign or converts an address.
func (b BPF) convert(to, from string) string {
	switch wide := b.Code&7 == 7; {
	case b.Offset == 8, b.Offset == 16, b.Offset == 32 && wide:
		return fmt.Sprintf("%s = (s%d)%s", to, b.Offset, from)
	case b.Offset == bpfCast && wide:
		return fmt.Sprintf("%s = addr_space_cast(%s, %d, %d)", to, from, uint32(b.Imm)>>16, uint16(b.Imm))
	case b.Offset == bpfPerCPU && wide:
		return fmt.Sprintf("%s = &(void __percpu *)(%s)", to, from)
	}
	return ""
}

// bpfConditions are the operators of conditional jumps, by the upper half of the opcode.
var bpfConditions = [16]string{1: "==", 2: ">", 3: ">=", 4: "&", 5: "!=", 6: "s>", 7: "s>=", 10: "<", 11: "<=", 12: "s<", 13: "s<="}

// jump returns the text of the classes JMP and JMP32.
func (b BPF) jump() string {
	switch b.Code {
	case 0x05:
		return fmt.Sprintf("goto pc%+d", b.Offset)
	case 0x06:
		return fmt.Sprintf("gotol pc%+d", b.Imm)
	case 0x0d:
		return fmt.Sprintf("gotox r%d", b.Dst)
	case 0x95:
		return "exit"
	case 0xe5:
		return fmt.Sprintf("may_goto pc%+d", b.Offset)
	case bpfCall:
		return b.call()
	}
	condition := bpfConditions[b.Code>>4]
	if condition == "" {
		return ""
	}
	letter, second := "w", fmt.Sprintf("%#x", uint32(b.Imm))
	if b.Code&7 == 5 {
		letter = "r"
	}
	if b.Code&bpfFromRegister != 0 {
		if b.Src > 10 {
			return ""
		}
		second = fmt.Sprintf("%s%d", letter, b.Src)
	}
	return fmt.Sprintf("if %s%d %s %s goto pc%+d", letter, b.Dst, condition, second, b.Offset)
}

// call returns the text of a call in a program before the verifier has rewritten it.
func (b BPF) call() string {
	switch b.Src {
	case BPFPseudoCall:
		return fmt.Sprintf("call pc%+d", b.Imm)
	case BPFPseudoKfunc:
		return fmt.Sprintf("call kernel-function#%d", b.Imm)
	case BPFPseudoHelper:
		name := Helper(b.Imm)
		if name == "" {
			name = "unknown"
		}
		return fmt.Sprintf("call %s#%d", name, b.Imm)
	}
	return ""
}
