package unwind

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/bperf/bperf/internal/symbol/dwarf"
)

// These limit the work of expressions. Those of compilers take a dozen steps, and only a few frames of a stack have any.
const (
	maxSteps = 4096 // for all frames of a stack
	maxStack = 64
)

// frame is the input of expressions.
type frame struct {
	table     *table // contains the expressions
	registers *Registers
	memory    func(address uint64) (uint64, bool)
	cfa       uint64
	cfaKnown  bool
	steps     *int // the steps of expressions so far, for all frames of a stack
}

var (
	errStack    = errors.New("an expression takes more from its stack than there is, or puts too much on it")
	errRegister = errors.New("a register is not known")
)

// memoryError is an address whose memory was not recorded.
type memoryError uint64

func (e memoryError) Error() string { return fmt.Sprintf("memory at %#x was not recorded", uint64(e)) }

// evaluation evaluates a DWARF expression (DWARF 5, 2.5) of call frame information.
type evaluation struct {
	frame *frame
	stack [maxStack]uint64
	depth int
	bad   bool // the stack overflowed or underflowed
}

// evaluate returns the value of an expression. The stack starts with the CFA, unless the expression computes the CFA.
func (f *frame) evaluate(expression []byte) (uint64, error) {
	e := evaluation{frame: f}
	if f.cfaKnown {
		e.push(f.cfa)
	}
	c := dwarf.NewCursor(expression)
	for ; !c.Done(); *f.steps++ {
		if *f.steps > maxSteps {
			return 0, errors.New("expressions take too many steps")
		}
		if err := e.step(&c); err != nil {
			return 0, err
		}
		if c.Bad() {
			return 0, errors.New("an expression ends too early")
		}
		if e.bad {
			return 0, errStack
		}
	}
	v := e.pop()
	if e.bad {
		return 0, errStack
	}
	return v, nil
}

func (e *evaluation) push(v uint64) {
	if e.depth == len(e.stack) {
		e.bad = true
		return
	}
	e.stack[e.depth] = v
	e.depth++
}

func (e *evaluation) pop() uint64 {
	if e.depth == 0 {
		e.bad = true
		return 0
	}
	e.depth--
	return e.stack[e.depth]
}

// pick pushes a copy of the nth value from the top.
func (e *evaluation) pick(n int) {
	if n >= e.depth {
		e.bad = true
		return
	}
	e.push(e.stack[e.depth-1-n])
}

// These are the operations of expressions: DWARF 5, 7.7.1.
const (
	opAddr         = 0x03
	opDeref        = 0x06
	opConst1u      = 0x08
	opConst1s      = 0x09
	opConst2u      = 0x0a
	opConst2s      = 0x0b
	opConst4u      = 0x0c
	opConst4s      = 0x0d
	opConst8u      = 0x0e
	opConst8s      = 0x0f
	opConstu       = 0x10
	opConsts       = 0x11
	opDup          = 0x12
	opDrop         = 0x13
	opOver         = 0x14
	opPick         = 0x15
	opSwap         = 0x16
	opRot          = 0x17
	opAbs          = 0x19
	opAnd          = 0x1a
	opDiv          = 0x1b
	opMinus        = 0x1c
	opMod          = 0x1d
	opMul          = 0x1e
	opNeg          = 0x1f
	opNot          = 0x20
	opOr           = 0x21
	opPlus         = 0x22
	opPlusUconst   = 0x23
	opShl          = 0x24
	opShr          = 0x25
	opShra         = 0x26
	opXor          = 0x27
	opBra          = 0x28
	opEq           = 0x29
	opGe           = 0x2a
	opGt           = 0x2b
	opLe           = 0x2c
	opLt           = 0x2d
	opNe           = 0x2e
	opSkip         = 0x2f
	opLit0         = 0x30
	opLit31        = 0x4f
	opBreg0        = 0x70
	opBreg31       = 0x8f
	opBregx        = 0x92
	opDerefSize    = 0x94
	opNop          = 0x96
	opCallFrameCFA = 0x9c
)

// step executes one operation.
func (e *evaluation) step(c *dwarf.Cursor) error {
	op := c.U8()
	if v, ok := literal(op, c); ok {
		e.push(v)
		return nil
	}
	if op >= opBreg0 && op <= opBreg31 {
		return e.register(uint64(op-opBreg0), c.Sleb())
	}
	if isBinary(op) {
		b, a := e.pop(), e.pop()
		return e.binary(op, a, b)
	}
	switch op {
	case opDeref:
		return e.read(8)
	case opDup:
		e.pick(0)
	case opDrop:
		e.pop()
	case opOver:
		e.pick(1)
	case opPick:
		e.pick(int(c.U8()))
	case opSwap:
		b, a := e.pop(), e.pop()
		e.push(b)
		e.push(a)
	case opRot: // the top becomes the third
		x, y, z := e.pop(), e.pop(), e.pop()
		e.push(x)
		e.push(z)
		e.push(y)
	case opAbs:
		v := int64(e.pop())
		e.push(uint64(max(v, -v)))
	case opNeg:
		e.push(-e.pop())
	case opNot:
		e.push(^e.pop())
	case opPlusUconst:
		e.push(e.pop() + c.Uleb())
	case opSkip:
		jump(c, int16(c.Uint(2)))
	case opBra:
		by := int16(c.Uint(2))
		if e.pop() != 0 {
			jump(c, by)
		}
	case opBregx:
		n := c.Uleb()
		return e.register(n, c.Sleb())
	case opDerefSize:
		return e.read(c.U8())
	case opNop:
	case opCallFrameCFA:
		if !e.frame.cfaKnown {
			return errors.New("an expression for the CFA refers to it")
		}
		e.push(e.frame.cfa)
	default:
		return fmt.Errorf("unknown operation %#x in an expression", op)
	}
	return nil
}

// literal returns the value of an operation that pushes a constant. ok is false for other operations.
func literal(op uint8, c *dwarf.Cursor) (v uint64, ok bool) {
	switch op {
	case opConst1u:
		return uint64(c.U8()), true
	case opConst1s:
		return uint64(int8(c.U8())), true
	case opConst2u:
		return c.Uint(2), true
	case opConst2s:
		return uint64(int16(c.Uint(2))), true
	case opConst4u:
		return c.Uint(4), true
	case opConst4s:
		return uint64(int32(c.Uint(4))), true
	case opAddr, opConst8u, opConst8s:
		return c.Uint(8), true
	case opConstu:
		return c.Uleb(), true
	case opConsts:
		return uint64(c.Sleb()), true
	}
	return uint64(op) - opLit0, op >= opLit0 && op <= opLit31
}

func (e *evaluation) binary(op uint8, a, b uint64) error {
	if (op == opDiv || op == opMod) && b == 0 {
		return errors.New("an expression divides by 0")
	}
	var v uint64
	switch op {
	case opAnd:
		v = a & b
	case opDiv:
		v = uint64(int64(a) / int64(b))
	case opMinus:
		v = a - b
	case opMod:
		v = a % b
	case opMul:
		v = a * b
	case opOr:
		v = a | b
	case opPlus:
		v = a + b
	case opShl:
		v = a << b
	case opShr:
		v = a >> b
	case opShra:
		v = uint64(int64(a) >> b)
	case opXor:
		v = a ^ b
	default:
		v = compare(op, int64(a), int64(b))
	}
	e.push(v)
	return nil
}

func compare(op uint8, a, b int64) uint64 {
	var is bool
	switch op {
	case opEq:
		is = a == b
	case opGe:
		is = a >= b
	case opGt:
		is = a > b
	case opLe:
		is = a <= b
	case opLt:
		is = a < b
	case opNe:
		is = a != b
	}
	if is {
		return 1
	}
	return 0
}

func jump(c *dwarf.Cursor, by int16) {
	c.At(c.Offset() + uint64(by)) // it fails before the start, too
}

func (e *evaluation) register(n uint64, offset int64) error {
	v, known := e.frame.registers.get(n)
	if !known {
		return errRegister
	}
	e.push(v + uint64(offset))
	return nil
}

// read replaces the address on top of the stack with the value in memory there. The memory function reads whole words, at any alignment.
func (e *evaluation) read(size uint8) error {
	address := e.pop()
	v, ok := e.frame.memory(address)
	if !ok {
		return memoryError(address)
	}
	switch size {
	case 1, 2, 4, 8:
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], v)
		clear(b[size:])
		e.push(binary.LittleEndian.Uint64(b[:]))
		return nil
	}
	return fmt.Errorf("an expression reads %d bytes", size)
}

// isBinary reports whether an operation takes two values.
func isBinary(op uint8) bool {
	switch op {
	case opNeg, opNot, opPlusUconst, opBra:
		return false
	}
	return op >= opAnd && op <= opNe
}
