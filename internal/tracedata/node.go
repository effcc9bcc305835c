package tracedata

import (
	"bytes"
	"strconv"
)

// record is a record of a tracepoint.
type record struct {
	f       *Format
	raw     []byte
	resolve Resolve
}

// node is an expression.
type node interface {
	typ() ctype
	num(r *record) uint64
}

// texter is an expression whose value is a string.
type texter interface {
	text(r *record, out []byte) []byte
}

// byter is an expression whose value is the address of memory in the record.
type byter interface {
	bytes(r *record) []byte
}

// textNode is the part that expressions share whose value is a string without an address in the record.
type textNode struct{}

func (textNode) typ() ctype         { return typeText }
func (textNode) num(*record) uint64 { return 0 }

type constant struct {
	value uint64
	t     ctype
}

func (c constant) typ() ctype         { return c.t }
func (c constant) num(*record) uint64 { return c.value }

type literal string

func (l literal) typ() ctype                        { return typeText }
func (l literal) num(*record) uint64                { return 0 }
func (l literal) text(_ *record, out []byte) []byte { return append(out, l...) }
func (l literal) bytes(*record) []byte              { return []byte(l) }

// fieldNode is REC->name. For arrays, and for the results of __get_str and the like, its value is the address of the first element.
type fieldNode struct {
	field   *Field
	t       ctype
	address bool // it is an array
}

func newFieldNode(f *Format, field *Field) fieldNode {
	t := ctype{size: field.Size, signed: field.Signed}
	if known, ok := namedType(field.Type, f.longSize); ok && known.pointer > 0 {
		t.pointer = known.pointer
	}
	if field.Array || field.Dynamic {
		return fieldNode{field, ctype{size: f.longSize, pointer: field.element()}, true}
	}
	return fieldNode{field, t, false}
}

func (n fieldNode) typ() ctype { return n.t }

func (n fieldNode) num(r *record) uint64 {
	b, _ := r.f.Bytes(r.raw, n.field)
	if n.address {
		if n.field.Offset+4 <= len(r.raw) && n.field.Dynamic {
			return uint64(r.f.order.Uint32(r.raw[n.field.Offset:]) & 0xffff)
		}
		return uint64(n.field.Offset)
	}
	return number(b, r.f.order, n.t.signed)
}

func (n fieldNode) bytes(r *record) []byte {
	b, _ := r.f.Bytes(r.raw, n.field)
	return b
}

func (n fieldNode) text(r *record, out []byte) []byte {
	if !n.address { // the address of a string in the kernel
		addr := n.num(r)
		if r.f.data != nil {
			if s, ok := r.f.data.Strings[addr]; ok {
				return append(out, s...)
			}
		}
		return strconv.AppendUint(append(out, "0x"...), addr, 16)
	}
	return append(out, untilNUL(n.bytes(r))...)
}

func untilNUL(b []byte) []byte {
	before, _, _ := bytes.Cut(b, []byte{0})
	return before
}

// lengthNode is __get_dynamic_array_len.
type lengthNode struct{ of fieldNode }

func (n lengthNode) typ() ctype           { return typeInt }
func (n lengthNode) num(r *record) uint64 { return uint64(len(n.of.bytes(r))) }

// indexNode is an element of an array: *(p + i) or p[i].
type indexNode struct {
	base  node
	index node // nil for 0
	t     ctype
}

func (n indexNode) typ() ctype { return n.t }

func (n indexNode) num(r *record) uint64 {
	b := n.bytes(r)
	if len(b) < n.t.size {
		return 0
	}
	return number(b[:n.t.size], r.f.order, n.t.signed)
}

func (n indexNode) bytes(r *record) []byte {
	b := bytesOf(r, n.base)
	at := uint64(0)
	if n.index != nil {
		at = n.index.num(r) * uint64(n.t.size)
	}
	if at > uint64(len(b)) {
		return nil
	}
	return b[at:]
}

// castNode is (type)x.
type castNode struct {
	of node
	t  ctype
}

func (n castNode) typ() ctype { return n.t }

func (n castNode) num(r *record) uint64 { return n.t.convert(n.of.num(r)) }

func (n castNode) bytes(r *record) []byte { return bytesOf(r, n.of) }

func (n castNode) text(r *record, out []byte) []byte { return appendText(r, n.of, out) }

// appendText appends what %s prints of an expression.
func appendText(r *record, n node, out []byte) []byte {
	if t, ok := n.(texter); ok {
		return t.text(r, out)
	}
	return strconv.AppendUint(append(out, "0x"...), n.num(r), 16)
}

type unaryNode struct {
	op string
	of node
}

func (n unaryNode) typ() ctype {
	if n.op == "!" {
		return typeInt
	}
	return n.of.typ().promote()
}

func (n unaryNode) num(r *record) uint64 {
	v := n.of.num(r)
	switch n.op {
	case "!":
		return truth(v == 0)
	case "-":
		v = -v
	case "~":
		v = ^v
	}
	return n.typ().convert(v)
}

func truth(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

type binaryNode struct {
	op          string
	left, right node
	t           ctype // of the result
	operands    ctype // type of the calculation
}

func newBinary(op string, left, right node) binaryNode {
	n := binaryNode{op: op, left: left, right: right, operands: common(left.typ(), right.typ())}
	switch op {
	case "<", ">", "<=", ">=", "==", "!=", "&&", "||":
		n.t = typeInt
	case "<<", ">>":
		n.operands = left.typ().promote()
		n.t = n.operands
	default:
		n.t = n.operands
	}
	return n
}

func (n binaryNode) typ() ctype { return n.t }

func (n binaryNode) num(r *record) uint64 {
	switch n.op {
	case "&&":
		return truth(n.left.num(r) != 0 && n.right.num(r) != 0)
	case "||":
		return truth(n.left.num(r) != 0 || n.right.num(r) != 0)
	}
	a, b := n.operands.convert(n.left.num(r)), n.right.num(r)
	switch n.op {
	case "<<":
		return n.t.convert(a << (b & 63))
	case ">>":
		if n.operands.signed {
			return uint64(int64(a) >> (b & 63))
		}
		return a >> (b & 63)
	}
	b = n.operands.convert(b)
	switch n.op {
	case "==":
		return truth(a == b)
	case "!=":
		return truth(a != b)
	case "<":
		return truth(n.less(a, b))
	case ">":
		return truth(n.less(b, a))
	case "<=":
		return truth(!n.less(b, a))
	case ">=":
		return truth(!n.less(a, b))
	}
	return n.t.convert(n.calculate(a, b))
}

func (n binaryNode) less(a, b uint64) bool {
	if n.operands.signed {
		return int64(a) < int64(b)
	}
	return a < b
}

func (n binaryNode) calculate(a, b uint64) uint64 {
	switch n.op {
	case "+":
		return a + b
	case "-":
		return a - b
	case "*":
		return a * b
	case "&":
		return a & b
	case "|":
		return a | b
	case "^":
		return a ^ b
	}
	switch {
	case b == 0:
		return 0 // the kernel would have stopped
	case n.operands.signed && n.op == "/":
		return uint64(int64(a) / int64(b))
	case n.operands.signed:
		return uint64(int64(a) % int64(b))
	case n.op == "/":
		return a / b
	}
	return a % b
}

// choiceNode is a ? b : c.
type choiceNode struct{ condition, yes, no node }

func (n choiceNode) pick(r *record) node {
	if n.condition.num(r) != 0 {
		return n.yes
	}
	return n.no
}

func (n choiceNode) typ() ctype {
	if n.yes.typ().pointer > 0 {
		return n.yes.typ()
	}
	return common(n.yes.typ(), n.no.typ())
}

func (n choiceNode) num(r *record) uint64              { return n.typ().convert(n.pick(r).num(r)) }
func (n choiceNode) text(r *record, out []byte) []byte { return appendText(r, n.pick(r), out) }
