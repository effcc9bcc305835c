package unwind

import (
	"errors"
	"fmt"
	"math"

	"github.com/bperf/bperf/internal/symbol/dwarf"
)

// row describes how to find the caller's frame from an address in the code: by the canonical frame address (CFA) and where registers
// are saved.
type row struct {
	table    *table // contains the expressions
	cfa      rule   // inRegister: the register plus the offset; isExpression: the address
	rules    []savedRule
	ra       uint64 // column of the return address
	signal   bool   // signal handlers return to this code
	restorer bool   // and the kernel put the registers onto the stack
	end      bool   // the return address is undefined: this is the outermost frame
}

// rule describes how to find a value. It is small, because remember_state and restore_state copy a rule for each register.
type rule struct {
	offset   int64
	at       uint32 // offset of the expression in the section
	size     uint16 // of the expression
	kind     kind
	register uint8 // registerCount for registers that are not followed
}

type savedRule struct {
	rule
	saved uint8 // the register
}

type kind uint8

const (
	same         kind = iota // unchanged
	undefined                // unknown
	inRegister               // in another register; for the CFA: that register plus the offset
	atOffset                 // saved at CFA plus offset
	isOffset                 // equal to CFA plus offset
	atExpression             // saved at the address that the expression computes
	isExpression             // the value that the expression computes
)

const (
	maxExpression   = 4096
	maxRemembered   = 64
	maxInstructions = 100_000
)

// expression returns the expression of a rule.
func (t *table) expression(r *rule) []byte { return t.section.Data[r.at:][:r.size] }

// state is a row in progress.
type state struct {
	cfa   rule
	rules [registerCount]rule
}

// machine executes call frame instructions.
type machine struct {
	state
	initial    state
	remembered []state
	common     *common
	table      *table
	location   uint64
	steps      int
	target     uint64
	done       bool
	changed    bool                  // whether the state changed since changed was last set to false
	moved      func(from, to uint64) // called for each range of code that the state covers; may be nil
}

// These limit the instructions that the rows of a file execute: stepsPerRow on average, and moreSteps beyond that in total. Instructions of
// compilers for a row number a few dozen.
const (
	stepsPerRow = 256
	moreSteps   = 1 << 24
)

// row returns the row for an address of the file. exact is set if the address is a program counter, and not one less than a return address.
// The row is nil if there is none, or if the rows of the file have executed too many instructions.
func (m *Module) row(address uint64, exact bool) *row {
	table, entry := m.find(address)
	if entry == nil {
		if m.isRestorer(address, exact) {
			return &row{signal: true, restorer: true}
		}
		return nil
	}
	if m.excess.Add(-stepsPerRow) > moreSteps {
		return nil
	}
	r, steps, err := table.row(entry, address)
	m.excess.Add(int64(steps))
	if err != nil { // frame pointers may still work
		return nil
	}
	r.restorer = r.signal && m.arch == ARM64 // the vDSO's tables lack the program counter
	return r
}

// row returns the row for an address in an entry, and how many instructions it executed.
func (t *table) row(e *entry, address uint64) (r *row, steps int, err error) {
	m := machine{common: t.commonOf(e), table: t, target: math.MaxUint64}
	if err := m.begin(); err != nil {
		return nil, m.steps, err
	}
	m.location, m.target = e.start, address
	if err := m.run(e.at, e.limit); err != nil {
		return nil, m.steps, err
	}
	r = &row{table: t, cfa: m.cfa, ra: m.common.ra, signal: m.common.signal}
	for n := range m.rules {
		if m.rules[n].kind != same {
			r.rules = append(r.rules, savedRule{m.rules[n], uint8(n)})
		}
	}
	r.end = r.ra < registerCount && m.rules[r.ra].kind == undefined
	return r, m.steps, nil
}

// begin computes the initial state of all entries with the same common information entry.
func (m *machine) begin() error {
	if err := m.run(m.common.at, m.common.limit); err != nil {
		return err
	}
	m.initial, m.remembered = m.state, m.remembered[:0]
	return nil
}

var errInstructions = fmt.Errorf("it has more than %d instructions", maxInstructions)

// run executes the instructions between two offsets in the section, up to the target.
func (m *machine) run(at, limit uint32) error {
	c := dwarf.NewCursor(m.table.section.Data[:limit])
	c.At(uint64(at))
	for n := 0; !c.Done() && !m.done; n++ {
		if n > maxInstructions {
			return errInstructions
		}
		m.steps++
		if err := m.step(&c); err != nil {
			return err
		}
		if c.Bad() {
			return errors.New("an instruction ends too early")
		}
	}
	return nil
}

// These are the call frame instructions: DWARF 5, 7.24, and those of Arm and GNU. The first three are in the high two bits of the opcode,
// and the low six bits are an operand.
const (
	cfaAdvanceLoc = 0x40
	cfaOffset     = 0x80
	cfaRestore    = 0xc0

	cfaNop                       = 0x00
	cfaSetLoc                    = 0x01
	cfaAdvanceLoc1               = 0x02
	cfaAdvanceLoc2               = 0x03
	cfaAdvanceLoc4               = 0x04
	cfaOffsetExtended            = 0x05
	cfaRestoreExtended           = 0x06
	cfaUndefined                 = 0x07
	cfaSameValue                 = 0x08
	cfaRegister                  = 0x09
	cfaRememberState             = 0x0a
	cfaRestoreState              = 0x0b
	cfaDefCFA                    = 0x0c
	cfaDefCFARegister            = 0x0d
	cfaDefCFAOffset              = 0x0e
	cfaDefCFAExpression          = 0x0f
	cfaExpression                = 0x10
	cfaOffsetExtendedSf          = 0x11
	cfaDefCFASf                  = 0x12
	cfaDefCFAOffsetSf            = 0x13
	cfaValOffset                 = 0x14
	cfaValOffsetSf               = 0x15
	cfaValExpression             = 0x16
	cfaAArch64NegateRAStatePC    = 0x2c // DW_CFA_AARCH64_negate_ra_state_with_pc
	cfaAArch64NegateRAState      = 0x2d
	cfaGNUArgsSize               = 0x2e
	cfaGNUNegativeOffsetExtended = 0x2f
)

// step executes one instruction.
func (m *machine) step(c *dwarf.Cursor) error {
	op := c.U8()
	low := uint64(op & 0x3f)
	switch op & 0xc0 {
	case cfaAdvanceLoc:
		m.advance(low)
		return nil
	case cfaOffset:
		m.save(low, rule{kind: atOffset, offset: int64(c.Uleb()) * m.common.data})
		return nil
	case cfaRestore:
		m.restore(low)
		return nil
	}
	switch op {
	case cfaNop:
	case cfaSetLoc:
		to, ok := m.table.pointer(c, m.common.encoding)
		if !ok {
			return errors.New("set_loc to an address that cannot be read")
		}
		m.move(to)
	case cfaAdvanceLoc1:
		m.advance(uint64(c.U8()))
	case cfaAdvanceLoc2:
		m.advance(c.Uint(2))
	case cfaAdvanceLoc4:
		m.advance(c.Uint(4))
	case cfaOffsetExtended:
		n := c.Uleb()
		m.save(n, rule{kind: atOffset, offset: int64(c.Uleb()) * m.common.data})
	case cfaRestoreExtended:
		m.restore(c.Uleb())
	case cfaUndefined:
		m.save(c.Uleb(), rule{kind: undefined})
	case cfaSameValue:
		m.save(c.Uleb(), rule{})
	case cfaRegister:
		n := c.Uleb()
		m.save(n, rule{kind: inRegister, register: followed(c.Uleb())})
	case cfaRememberState:
		if len(m.remembered) >= maxRemembered {
			return errors.New("too many states are remembered")
		}
		m.remembered = append(m.remembered, m.state)
	case cfaRestoreState:
		if len(m.remembered) == 0 {
			return errors.New("a state is restored that was not remembered")
		}
		m.state, m.changed = m.remembered[len(m.remembered)-1], true
		m.remembered = m.remembered[:len(m.remembered)-1]
	case cfaExpression:
		n := c.Uleb()
		return m.saveExpression(n, atExpression, c)
	case cfaOffsetExtendedSf:
		n := c.Uleb()
		m.save(n, rule{kind: atOffset, offset: c.Sleb() * m.common.data})
	case cfaValOffset:
		n := c.Uleb()
		m.save(n, rule{kind: isOffset, offset: int64(c.Uleb()) * m.common.data})
	case cfaValOffsetSf:
		n := c.Uleb()
		m.save(n, rule{kind: isOffset, offset: c.Sleb() * m.common.data})
	case cfaValExpression:
		n := c.Uleb()
		return m.saveExpression(n, isExpression, c)
	case cfaAArch64NegateRAState, cfaAArch64NegateRAStatePC: // a signed return address is recognized by its value
	case cfaGNUArgsSize:
		c.Uleb()
	case cfaGNUNegativeOffsetExtended:
		n := c.Uleb()
		m.save(n, rule{kind: atOffset, offset: -int64(c.Uleb()) * m.common.data})
	default:
		return m.defineCFA(op, c)
	}
	return nil
}

func (m *machine) defineCFA(op uint8, c *dwarf.Cursor) error {
	m.changed = true
	switch op {
	case cfaDefCFA:
		n := c.Uleb()
		m.cfa = rule{kind: inRegister, register: followed(n), offset: int64(c.Uleb())}
	case cfaDefCFARegister:
		m.cfa = rule{kind: inRegister, register: followed(c.Uleb()), offset: m.cfa.offset}
	case cfaDefCFAOffset:
		m.cfa.offset = int64(c.Uleb())
	case cfaDefCFAExpression:
		var err error
		m.cfa, err = expression(isExpression, c)
		return err
	case cfaDefCFASf:
		n := c.Uleb()
		m.cfa = rule{kind: inRegister, register: followed(n), offset: c.Sleb() * m.common.data}
	case cfaDefCFAOffsetSf:
		m.cfa.offset = c.Sleb() * m.common.data
	default:
		return fmt.Errorf("unknown instruction %#x", op)
	}
	return nil
}

// followed returns the number of a register in rules.
func followed(register uint64) uint8 { return uint8(min(register, registerCount)) }

// expression reads the expression of a rule. The cursor must start at the start of the section.
func expression(kind kind, c *dwarf.Cursor) (rule, error) {
	n := c.Uleb()
	if n > maxExpression {
		return rule{}, fmt.Errorf("an expression has %d bytes", n)
	}
	r := rule{kind: kind, at: uint32(c.Offset()), size: uint16(n)}
	c.Skip(n)
	return r, nil
}

func (m *machine) saveExpression(register uint64, kind kind, c *dwarf.Cursor) error {
	r, err := expression(kind, c)
	m.save(register, r)
	return err
}

func (m *machine) save(register uint64, r rule) {
	if register < registerCount {
		m.rules[register], m.changed = r, true
	}
}

func (m *machine) restore(register uint64) {
	if register < registerCount {
		m.rules[register], m.changed = m.initial.rules[register], true
	}
}

func (m *machine) advance(n uint64) { m.move(m.location + n*m.common.code) }

// move moves the location to the code that the next instructions apply to. Beyond the target, the machine is done.
func (m *machine) move(to uint64) {
	if m.moved != nil {
		m.moved(m.location, to)
	}
	m.location = to
	m.done = m.done || to > m.target
}
