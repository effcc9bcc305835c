// Package typed reads values that BPF programs made, such as keys and values of maps, by their BTF types.
package typed

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf/btf"
)

// Column is a part of a value that is no structure: a number, an enumeration, a text, or bytes.
type Column struct {
	Name string // of the member, with dots between it and the structures that it is in

	offset uint32 // bytes
	size   uint32
	typ    btf.Type // nil for bytes of no known type

	shift, bits uint32 // of a bit field: its first bit, and how many there are; no bits for others
}

// Columns returns the columns of a type. Without a type it is one of bytes. What has no name of its own gets the name given.
func Columns(name string, t btf.Type, size uint32) []Column {
	if t == nil {
		return []Column{{Name: name, size: size}}
	}
	var f flattener
	f.add("", t, 0, 0)
	if len(f.columns) == 1 && f.columns[0].Name == "" {
		f.columns[0].Name = name
	}
	return f.columns
}

// IsStruct reports whether a type is a structure. It may be nil.
func IsStruct(t btf.Type) bool {
	if t == nil {
		return false
	}
	_, is := btf.UnderlyingType(t).(*btf.Struct)
	return is
}

// LastName returns the name of the member without the structures that it is in.
func (c *Column) LastName() string { return c.Name[strings.LastIndexByte(c.Name, '.')+1:] }

// IsNumber reports whether it is a number of at most 8 bytes: Read returns a uint64 or an int64.
func (c *Column) IsNumber() bool {
	n, is := c.typ.(*btf.Int)
	return is && n.Encoding != btf.Bool && n.Size <= 8
}

// IsText reports whether it is an array of characters: Read returns a string up to the first 0.
func (c *Column) IsText() bool { return c.elementSize() == 1 }

// elementSize is how many bytes an element of an array has; 0 for what is none.
func (c *Column) elementSize() uint32 {
	if a, is := c.typ.(*btf.Array); is {
		return btf.UnderlyingType(a.Type).(*btf.Int).Size
	}
	return 0
}

// Size returns the number of bytes.
func (c *Column) Size() uint32 { return c.size }

// Limits of types, which recordings have from other people.
const (
	mostElements = 16   // of an array that are columns of their own
	mostTypes    = 4096 // that are parts of a type
	mostNested   = 32   // structures and arrays
)

// flattener makes the columns of a type.
type flattener struct {
	columns []Column
	seen    int // types
}

func (f *flattener) add(name string, t btf.Type, offset uint32, depth int) {
	f.seen++
	size, err := btf.Sizeof(t)
	if err != nil || size > math.MaxInt32 || depth > mostNested || f.seen > mostTypes {
		return
	}
	leaf := Column{Name: name, offset: offset, size: uint32(size)}
	switch u := btf.UnderlyingType(t).(type) {
	case *btf.Struct:
		for _, m := range u.Members {
			f.addMember(name, m, offset, depth+1)
		}
		return
	case *btf.Array:
		element, isInt := btf.UnderlyingType(u.Type).(*btf.Int)
		if isInt && (element.Size == 1 || element.Size <= 8 && isHistogram(name)) { // a text, or numbers that belong together
			leaf.typ = u
			break
		}
		each, err := btf.Sizeof(u.Type)
		if err != nil || u.Nelems > mostElements {
			break
		}
		for i := range u.Nelems {
			f.add(fmt.Sprintf("%s[%d]", name, i), u.Type, offset+i*uint32(each), depth+1)
		}
		return
	case *btf.Int, *btf.Enum, *btf.Pointer:
		leaf.typ = u
	}
	f.columns = append(f.columns, leaf)
}

// isHistogram reports whether a member has the name that tools of bcc, and what was written after them, give to the counts of a histogram.
func isHistogram(name string) bool {
	return slices.Contains([]string{"slots", "buckets", "hist", "histogram"}, name[strings.LastIndexByte(name, '.')+1:])
}

func (f *flattener) addMember(name string, m btf.Member, offset uint32, depth int) {
	if m.Name != "" && name != "" {
		name += "."
	}
	name += m.Name
	if m.BitfieldSize == 0 {
		f.add(name, m.Type, offset+m.Offset.Bytes(), depth)
		return
	}
	f.seen++
	t := btf.UnderlyingType(m.Type)
	switch t.(type) {
	case *btf.Int, *btf.Enum:
	default: // which no compiler makes
		return
	}
	size, err := btf.Sizeof(t)
	if err != nil || size > 8 || size == 0 || f.seen > mostTypes {
		return
	}
	bits := uint32(m.Offset)
	start := bits / 8 / uint32(size) * uint32(size)
	f.columns = append(f.columns, Column{Name: name, offset: offset + start, size: uint32(size), typ: t,
		shift: bits - 8*start, bits: uint32(m.BitfieldSize)})
}

// Read returns the column's part of a value: a bool, int64, uint64, []uint64 or string. If the value is too short, it is an empty string.
func (c *Column) Read(b []byte) any {
	if uint64(c.offset)+uint64(c.size) > uint64(len(b)) {
		return ""
	}
	b = b[c.offset:][:c.size]
	switch t := c.typ.(type) {
	case *btf.Int:
		if t.Size > 8 {
			break
		}
		n := c.take(word(b))
		switch t.Encoding {
		case btf.Bool:
			return n != 0
		case btf.Signed:
			unused := 64 - 8*c.size
			if c.bits > 0 {
				unused = 64 - c.bits
			}
			return int64(n<<unused) >> unused
		}
		return n
	case *btf.Enum:
		n := c.take(word(b))
		for _, v := range t.Values {
			if v.Value == n {
				return v.Name
			}
		}
		return strconv.FormatUint(n, 10)
	case *btf.Pointer:
		return fmt.Sprintf("%#x", word(b))
	case *btf.Array:
		if size := c.elementSize(); size > 1 {
			var numbers []uint64
			for ; len(b) >= int(size); b = b[size:] {
				numbers = append(numbers, word(b[:size]))
			}
			return numbers
		}
		text, _, _ := strings.Cut(string(b), "\x00")
		return text
	}
	return hex.EncodeToString(b)
}

// take takes a bit field out of a word.
func (c *Column) take(n uint64) uint64 {
	if c.bits == 0 {
		return n
	}
	return n >> c.shift & (1<<c.bits - 1)
}

// word returns a number of up to 8 bytes. The machines that bperf runs on are little-endian.
func word(b []byte) uint64 {
	var padded [8]byte
	copy(padded[:], b)
	return binary.NativeEndian.Uint64(padded[:])
}

// Sum adds up the column's part of the values of all CPUs. What is no number is that of the first CPU.
func (c *Column) Sum(each [][]byte) any {
	if len(each) == 0 {
		return ""
	}
	first := c.Read(each[0])
	for _, b := range each[1:] {
		switch n := first.(type) {
		case uint64:
			first = n + c.Read(b).(uint64)
		case int64:
			first = n + c.Read(b).(int64)
		case bool:
			first = n || c.Read(b).(bool)
		case []uint64:
			for i, more := range c.Read(b).([]uint64) {
				n[i] += more
			}
		}
	}
	return first
}
