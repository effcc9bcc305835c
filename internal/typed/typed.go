// Package typed decodes values that BPF programs write, such as keys and values of maps, by their BTF types. A column is a part of a value
// that is not a structure itself, for example a member of the key.
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

// Column is a part of a value: a number, an enumeration, a text, a histogram, or bytes.
type Column struct {
	Name string // the member's name, prefixed by the names of its structures with dots

	offset uint32 // bytes from the start of the value
	size   uint32
	typ    btf.Type // nil for bytes of unknown type

	shift, bits uint32 // first bit and number of bits of a bit field; bits is 0 for other members
}

// Columns returns the columns of a type. If t is nil, it returns a column of size bytes. name is the name of a single column that has no
// member name.
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

// IsStruct reports whether t is a structure. t may be nil.
func IsStruct(t btf.Type) bool {
	if t == nil {
		return false
	}
	_, is := btf.UnderlyingType(t).(*btf.Struct)
	return is
}

// LastName returns the member's name without the names of its structures.
func (c *Column) LastName() string { return c.Name[strings.LastIndexByte(c.Name, '.')+1:] }

// IsNumber reports whether the column is a number of at most 8 bytes. Read returns a uint64 or an int64.
func (c *Column) IsNumber() bool {
	n, is := c.typ.(*btf.Int)
	return is && n.Encoding != btf.Bool && n.Size <= 8
}

// IsText reports whether the column is an array of characters. Read returns a string, which ends at the first NUL.
func (c *Column) IsText() bool { return c.elementSize() == 1 }

// elementSize returns the size of an array's elements in bytes, or 0 if the column is no array.
func (c *Column) elementSize() uint32 {
	if a, is := c.typ.(*btf.Array); is {
		return btf.UnderlyingType(a.Type).(*btf.Int).Size
	}
	return 0
}

// Size returns the size of the column in bytes.
func (c *Column) Size() uint32 { return c.size }

// Limits of types: a recording's types may come from an untrusted source.
const (
	mostElements = 16   // elements of an array that become separate columns
	mostTypes    = 4096 // parts of a type
	mostNested   = 32   // levels of structures and arrays
)

// flattener collects the columns of a type.
type flattener struct {
	columns []Column
	seen    int // number of types
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
		if isInt && (element.Size == 1 || element.Size <= 8 && isHistogram(name)) { // a text or a histogram
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

// isHistogram reports whether a member has one of the names that bcc's tools, and tools modelled on them, use for the counts of a histogram.
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
	default: // no compiler produces such a bit field
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

// Read returns the column's part of a value: a bool, int64, uint64, []uint64 or string. If the value is too short, Read returns "".
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

// take extracts a bit field from a word. It returns the whole word for other columns.
func (c *Column) take(n uint64) uint64 {
	if c.bits == 0 {
		return n
	}
	return n >> c.shift & (1<<c.bits - 1)
}

// word decodes a number of up to 8 bytes. It works only on little-endian machines, the only ones that bperf supports.
func word(b []byte) uint64 {
	var padded [8]byte
	copy(padded[:], b)
	return binary.NativeEndian.Uint64(padded[:])
}

// Sum returns the sum of the column over the values of all CPUs. For a column that has no sum, it returns the first CPU's.
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
