package unwind

import (
	"bytes"
	"math"

	"github.com/bperf/bperf/internal/symbol/dwarf"
)

// Base is the value that an offset of a Rule is relative to, or a value that replaces it. The numbers are those of bpf/unwind.h.
type Base uint8

const (
	None   Base = iota // unknown
	AtCFA              // the canonical frame address
	AtSP               // the stack pointer
	AtFP               // the frame pointer
	Same               // frame pointer: unchanged; return address: in the link register (arm64)
	PLT                // CFA, in the PLT on x86-64: the stack pointer plus 8, and 8 more if the offset in the 16-byte entry is at least CFAOffset
	End                // return address: there is no caller
	Loaded Base = 0x80 // flag of a base of the CFA: the CFA is stored at that address
)

// Rule describes how to find the caller's frame from the registers that every frame has: the stack pointer, the frame pointer, the program
// counter, and on arm64 the link register. It is struct unwind_rule of bpf/unwind.h.
type Rule struct {
	CFAOffset, RAOffset, FPOffset int32 // bytes
	CFA                           Base  // AtSP or AtFP plus the offset, or the value Loaded from there; PLT; None
	RA                            Base  // where the return address is saved; Same; End
	FP                            Base  // where the frame pointer is saved; Same; None
	Signal                        bool  // a signal interrupted the caller; on arm64, its link register is saved two words before the return address
}

// restorerRule returns the rule for the code that signal handlers return to. It reads the registers that the kernel saved on the stack.
func restorerRule(a Arch) Rule {
	if a == ARM64 {
		return Rule{CFA: AtSP | Loaded, CFAOffset: arm64SignalRegisters + 8*arm64SP, RA: AtSP, RAOffset: arm64SignalRegisters + 8*arm64PC,
			FP: AtSP, FPOffset: arm64SignalRegisters + 8*arm64FP, Signal: true}
	}
	at := func(register uint64) int32 {
		for n, r := range amd64Signal {
			if r == register {
				return amd64SignalRegisters + 8*int32(n)
			}
		}
		return 0
	}
	return Rule{CFA: AtSP | Loaded, CFAOffset: at(amd64SP), RA: AtSP, RAOffset: at(amd64PC), FP: AtSP, FPOffset: at(amd64BP), Signal: true}
}

// compile returns the Rule for the machine's state, or the zero Rule if no Rule can express it.
func (m *machine) compile(a Arch) Rule {
	column := m.common.ra
	if a == AMD64 && column != amd64PC || a == ARM64 && column != arm64LR {
		return Rule{}
	}
	if a == ARM64 && m.common.signal {
		return restorerRule(a) // the vDSO's tables lack the program counter
	}
	if m.rules[column].kind == undefined {
		return Rule{RA: End}
	}
	r := Rule{Signal: m.common.signal}
	r.CFA, r.CFAOffset = m.compileCFA(a)
	r.RA, r.RAOffset = m.saved(a, column)
	r.FP, r.FPOffset = m.saved(a, a.framePointer())
	if r.CFA == None || r.RA == None || r.RA == Same && a == AMD64 || !m.stackPointerIsCFA(a, &r) {
		return Rule{}
	}
	return r
}

// stackPointerIsCFA reports whether the caller's stack pointer is the CFA. It always is, but some tables express it in a different way.
func (m *machine) stackPointerIsCFA(a Arch, r *Rule) bool {
	saved := &m.rules[a.sp()]
	if saved.kind == same || saved.kind == isOffset && saved.offset == 0 {
		return true
	}
	base, offset := m.saved(a, a.sp())
	return base|Loaded == r.CFA && offset == r.CFAOffset
}

func (a Arch) base(register uint64) Base {
	switch register {
	case a.sp():
		return AtSP
	case a.framePointer():
		return AtFP
	}
	return None
}

// compileCFA returns the CFA of a Rule.
func (m *machine) compileCFA(a Arch) (Base, int32) {
	switch m.cfa.kind {
	case inRegister:
		return fitting(a.base(uint64(m.cfa.register)), m.cfa.offset)
	case isExpression:
		expression := m.table.expression(&m.cfa)
		if at, ok := pltLate(expression); ok && a == AMD64 {
			return PLT, at
		}
		n := len(expression)
		if n == 0 || expression[n-1] != opDeref {
			return None, 0
		}
		base, offset := a.address(expression[:n-1])
		if base == None {
			return None, 0
		}
		return base | Loaded, offset
	}
	return None, 0
}

// saved returns where a register is saved.
func (m *machine) saved(a Arch, register uint64) (Base, int32) {
	switch r := &m.rules[register]; r.kind {
	case same:
		return Same, 0
	case atOffset:
		return fitting(AtCFA, r.offset)
	case atExpression:
		return a.address(m.table.expression(r))
	}
	return None, 0
}

// address returns the base and the offset of an expression that adds an offset to the stack or frame pointer.
func (a Arch) address(expression []byte) (Base, int32) {
	c := dwarf.NewCursor(expression)
	op := c.U8()
	if op < opBreg0 || op > opBreg31 {
		return None, 0
	}
	offset := c.Sleb()
	if c.Bad() || !c.Done() {
		return None, 0
	}
	return fitting(a.base(uint64(op-opBreg0)), offset)
}

func fitting(b Base, offset int64) (Base, int32) {
	if offset < math.MinInt32 || offset > math.MaxInt32 || b == None {
		return None, 0
	}
	return b, int32(offset)
}

// pltLate returns N of the expression that linkers write for the PLT, rsp + 8 + (((rip & 15) >= N) << 3). ok is false for other
// expressions.
func pltLate(expression []byte) (n int32, ok bool) {
	rest, begins := bytes.CutPrefix(expression, []byte{opBreg0 + amd64SP, 8, opBreg0 + amd64PC, 0, opLit0 + 15, opAnd})
	lit, ends := bytes.CutSuffix(rest, []byte{opGe, opLit0 + 3, opShl, opPlus})
	if !begins || !ends || len(lit) != 1 {
		return 0, false
	}
	return int32(lit[0]) - opLit0, lit[0] >= opLit0 && lit[0] <= opLit0+15
}
