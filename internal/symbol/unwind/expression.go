package unwind

import (
	"encoding/binary"
	"errors"
	"fmt"
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
	c := cursor{data: expression}
	for ; c.more(); *f.steps++ {
		if *f.steps > maxSteps {
			return 0, errors.New("expressions take too many steps")
		}
		if err := e.step(&c); err != nil {
			return 0, err
		}
		if c.bad {
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

// step executes one operation: DW_OP_* of DWARF 5, 7.7.1.
func (e *evaluation) step(c *cursor) error {
	op := c.u8()
	switch {
	case op >= 0x30 && op <= 0x4f: // lit
		e.push(uint64(op - 0x30))
		return nil
	case op >= 0x70 && op <= 0x8f: // breg
		return e.register(uint64(op-0x70), c.sleb())
	case isBinary(op):
		b, a := e.pop(), e.pop()
		return e.binary(op, a, b)
	}
	switch op {
	case 0x03: // addr
		e.push(c.u64())
	case 0x06: // deref
		return e.read(8)
	case 0x08:
		e.push(uint64(c.u8()))
	case 0x09:
		e.push(uint64(int64(int8(c.u8()))))
	case 0x0a:
		e.push(uint64(c.u16()))
	case 0x0b:
		e.push(uint64(int64(int16(c.u16()))))
	case 0x0c:
		e.push(uint64(c.u32()))
	case 0x0d:
		e.push(uint64(int64(int32(c.u32()))))
	case 0x0e, 0x0f:
		e.push(c.u64())
	case 0x10: // constu
		e.push(c.uleb())
	case 0x11: // consts
		e.push(uint64(c.sleb()))
	case 0x12: // dup
		e.pick(0)
	case 0x13: // drop
		e.pop()
	case 0x14: // over
		e.pick(1)
	case 0x15: // pick
		e.pick(int(c.u8()))
	case 0x16: // swap
		b, a := e.pop(), e.pop()
		e.push(b)
		e.push(a)
	case 0x17: // rot: the top becomes the third
		x, y, z := e.pop(), e.pop(), e.pop()
		e.push(x)
		e.push(z)
		e.push(y)
	case 0x19: // abs
		v := int64(e.pop())
		e.push(uint64(max(v, -v)))
	case 0x1f: // neg
		e.push(-e.pop())
	case 0x20: // not
		e.push(^e.pop())
	case 0x23: // plus_uconst
		e.push(e.pop() + c.uleb())
	case 0x2f: // skip
		e.jump(c, int16(c.u16()))
	case 0x28: // bra
		to := int16(c.u16())
		if e.pop() != 0 {
			e.jump(c, to)
		}
	case 0x92: // bregx
		n := c.uleb()
		return e.register(n, c.sleb())
	case 0x94: // deref_size
		return e.read(c.u8())
	case 0x96: // nop
	case 0x9c: // call_frame_cfa
		if !e.frame.cfaKnown {
			return errors.New("an expression for the CFA refers to it")
		}
		e.push(e.frame.cfa)
	default:
		return fmt.Errorf("unknown operation %#x in an expression", op)
	}
	return nil
}

func (e *evaluation) binary(op uint8, a, b uint64) error {
	if (op == 0x1b || op == 0x1d) && b == 0 {
		return errors.New("an expression divides by 0")
	}
	var v uint64
	switch op {
	case 0x1a:
		v = a & b
	case 0x1b:
		v = uint64(int64(a) / int64(b))
	case 0x1c:
		v = a - b
	case 0x1d:
		v = a % b
	case 0x1e:
		v = a * b
	case 0x21:
		v = a | b
	case 0x22:
		v = a + b
	case 0x24:
		v = a << b
	case 0x25:
		v = a >> b
	case 0x26:
		v = uint64(int64(a) >> b)
	case 0x27:
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
	case 0x29:
		is = a == b
	case 0x2a:
		is = a >= b
	case 0x2b:
		is = a > b
	case 0x2c:
		is = a <= b
	case 0x2d:
		is = a < b
	case 0x2e:
		is = a != b
	}
	if is {
		return 1
	}
	return 0
}

func (e *evaluation) jump(c *cursor, by int16) {
	to := c.off + int(by)
	if to < 0 || to > len(c.data) {
		c.fail()
		return
	}
	c.off = to
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
	case 0x1f, 0x20, 0x23, 0x28: // neg, not, plus_uconst, bra
		return false
	}
	return op >= 0x1a && op <= 0x2e
}
