package otlp

import (
	"encoding/binary"
	"math"
)

// message is a protobuf message in the wire format (https://protobuf.dev/programming-guides/encoding). Fields with the value 0 are left
// out, as proto3 does.
type message []byte

// The wire types of fields.
const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
)

func (m message) tag(field, wire int) message {
	return binary.AppendUvarint(m, uint64(field)<<3|uint64(wire))
}

func (m message) number(field int, v uint64) message {
	if v == 0 {
		return m
	}
	return binary.AppendUvarint(m.tag(field, wireVarint), v)
}

func (m message) fixed(field int, v uint64) message {
	if v == 0 {
		return m
	}
	return binary.LittleEndian.AppendUint64(m.tag(field, wireFixed64), v)
}

// double appends a number even if it is 0: it is there.
func (m message) double(field int, v float64) message {
	return binary.LittleEndian.AppendUint64(m.tag(field, wireFixed64), math.Float64bits(v))
}

// signed appends a field of the type sint32.
func (m message) signed(field int, v int32) message {
	return m.number(field, uint64(uint32(v)<<1)^uint64(uint32(v>>31)))
}

// index appends a position in a table.
func (m message) index(field int, i int32) message { return m.number(field, uint64(i)) }

// indices appends positions in a table as a packed field.
func (m message) indices(field int, all []int32) message {
	if len(all) == 0 {
		return m
	}
	size := 0
	for _, i := range all {
		size += uvarintSize(uint64(i))
	}
	m = binary.AppendUvarint(m.tag(field, wireBytes), uint64(size))
	for _, i := range all {
		m = binary.AppendUvarint(m, uint64(i))
	}
	return m
}

func uvarintSize(v uint64) (size int) {
	for size = 1; v >= 0x80; size++ {
		v >>= 7
	}
	return size
}

// message appends a message as a field, even if it is empty: it is an element of a list, or it says that it is there.
func (m message) message(field int, inner message) message {
	return append(binary.AppendUvarint(m.tag(field, wireBytes), uint64(len(inner))), inner...)
}

func (m message) text(field int, s string) message {
	if s == "" {
		return m
	}
	return append(binary.AppendUvarint(m.tag(field, wireBytes), uint64(len(s))), s...)
}

// table is a table of the dictionary: each distinct entry once. Entry 0 is the one without values, which stands for "none".
type table struct {
	field int // of ProfilesDictionary
	ids   map[string]int32
	out   message // the entries as fields of ProfilesDictionary
}

func newTable(field int, none message) *table {
	t := &table{field: field, ids: map[string]int32{"": 0}}
	t.out = t.out.message(field, none)
	return t
}

// id returns the position of an entry, which it adds if it is new.
func (t *table) id(entry message) int32 {
	if known, is := t.ids[string(entry)]; is {
		return known
	}
	id := int32(len(t.ids))
	t.ids[string(entry)] = id
	t.out = t.out.message(t.field, entry)
	return id
}
