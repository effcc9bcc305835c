package tracedata

import (
	"encoding/hex"
	"fmt"
	"strconv"
)

// pair is a value and its name in __print_flags and __print_symbolic.
type pair struct {
	value node
	name  string
}

// flagsNode is __print_flags: the names of the bits that are set.
type flagsNode struct {
	textNode
	of        node
	delimiter string
	pairs     []pair
}

func (n flagsNode) text(r *record, out []byte) []byte {
	v := n.of.num(r)
	some := false
	add := func() {
		if some {
			out = append(out, n.delimiter...)
		}
		some = true
	}
	for _, p := range n.pairs {
		flag := p.value.num(r)
		if v == 0 && flag == 0 && !some {
			return append(out, p.name...)
		}
		if flag != 0 && v&flag == flag {
			add()
			out = append(out, p.name...)
			v &^= flag
		}
	}
	if v != 0 {
		add()
		out = strconv.AppendUint(append(out, "0x"...), v, 16)
	}
	return out
}

// symbolicNode is __print_symbolic: the name of a value.
type symbolicNode struct {
	textNode
	of    node
	pairs []pair
}

func (n symbolicNode) text(r *record, out []byte) []byte {
	v := n.of.num(r)
	for _, p := range n.pairs {
		if p.value.num(r) == v {
			return append(out, p.name...)
		}
	}
	return strconv.AppendUint(append(out, "0x"...), v, 16)
}

// hexNode is __print_hex and __print_hex_str: bytes, with blanks in between or without.
type hexNode struct {
	textNode
	of, length node
	blanks     bool
}

func (n hexNode) text(r *record, out []byte) []byte {
	b := bytesOf(r, n.of)
	b = b[:min(uint64(len(b)), n.length.num(r))]
	for i := range b {
		if i > 0 && n.blanks {
			out = append(out, ' ')
		}
		out = hex.AppendEncode(out, b[i:i+1])
	}
	return out
}

func bytesOf(r *record, n node) []byte {
	if b, ok := n.(byter); ok {
		return b.bytes(r)
	}
	return nil
}

// arrayNode is __print_array.
type arrayNode struct {
	textNode
	of, count, size node
}

func (n arrayNode) text(r *record, out []byte) []byte {
	b, count, size := bytesOf(r, n.of), n.count.num(r), n.size.num(r)
	out = append(out, '{')
	for i := uint64(0); i < count && size > 0 && size <= uint64(len(b)); i++ {
		if i > 0 {
			out = append(out, ',')
		}
		out = strconv.AppendUint(append(out, "0x"...), number(b[:size], r.f.order, false), 16)
		b = b[size:]
	}
	return append(out, '}')
}

// bitmapNode is __get_bitmask and __get_cpumask: in hexadecimal, with a comma after each 32 bits.
type bitmapNode struct {
	textNode
	of fieldNode
}

func (n bitmapNode) text(r *record, out []byte) []byte {
	b := n.of.bytes(r)
	some := false
	for end := len(b) / 4 * 4; end > 0; end -= 4 {
		word := r.f.order.Uint32(b[end-4:])
		if !some {
			if word == 0 && end > 4 {
				continue
			}
			out, some = strconv.AppendUint(out, uint64(word), 16), true
			continue
		}
		out = fmt.Appendf(out, ",%08x", word)
	}
	return out
}
