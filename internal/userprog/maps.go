package userprog

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
)

// Map is what a map of an object has at a time.
type Map struct {
	Name    string
	Columns []string // of the key, and then of the value: members of structures with dots
	Keys    int      // the number of columns that are of the key
	Rows    []Row    // in descending order of the first number of the value
	Cut     bool     // it has more than mostRows
}

// Row is an entry of a map: a bool, int64, uint64 or string for each column. Values of maps that have one for each CPU are added up.
type Row []any

// mostRows is how many entries of a map are read.
const mostRows = 1 << 20

// Maps reads the hash maps and arrays of all objects. Elements of arrays that are 0 are left out.
func (p *Programs) Maps() ([]Map, error) {
	if p == nil {
		return nil, nil
	}
	var all []Map
	for _, o := range p.objects {
		for _, name := range slices.Sorted(maps.Keys(o.spec.Maps)) {
			if strings.HasPrefix(name, ".") || !readable(o.spec.Maps[name].Type) { // global variables are in maps such as .bss
				continue
			}
			m, err := readMap(o.spec.Maps[name], o.loaded.Maps[name])
			if err != nil {
				return nil, fmt.Errorf("%s: read the map %s: %w", o.file, name, err)
			}
			all = append(all, m)
		}
	}
	return all, nil
}

func readable(t ebpf.MapType) bool {
	return slices.Contains([]ebpf.MapType{ebpf.Hash, ebpf.LRUHash, ebpf.Array, ebpf.PerCPUHash, ebpf.LRUCPUHash, ebpf.PerCPUArray}, t)
}

func readMap(spec *ebpf.MapSpec, m *ebpf.Map) (Map, error) {
	keys, values := columnsOf("key", spec.Key, spec.KeySize), columnsOf("value", spec.Value, spec.ValueSize)
	out := Map{Name: spec.Name, Keys: len(keys)}
	for _, c := range slices.Concat(keys, values) {
		out.Columns = append(out.Columns, c.name)
	}
	isArray := spec.Type == ebpf.Array || spec.Type == ebpf.PerCPUArray
	var key, value []byte
	var each [][]byte
	perCPU := spec.Type == ebpf.PerCPUArray || spec.Type == ebpf.PerCPUHash || spec.Type == ebpf.LRUCPUHash
	into := any(&value)
	if perCPU {
		into = &each
	}
	entries := m.Iterate()
	for entries.Next(&key, into) {
		if !perCPU {
			each = [][]byte{value}
		}
		if isArray && !slices.ContainsFunc(each, func(b []byte) bool { return slices.ContainsFunc(b, func(c byte) bool { return c != 0 }) }) {
			continue
		}
		if out.Cut = len(out.Rows) == mostRows; out.Cut {
			break
		}
		var row Row
		for _, c := range keys {
			row = append(row, c.read(key))
		}
		for _, c := range values {
			row = append(row, c.sum(each))
		}
		out.Rows = append(out.Rows, row)
	}
	out.sort()
	return out, entries.Err()
}

// sort puts rows with large numbers first.
func (m *Map) sort() {
	if len(m.Rows) == 0 {
		return
	}
	by := slices.IndexFunc(m.Rows[0][m.Keys:], func(cell any) bool { _, number := magnitude(cell); return number })
	slices.SortFunc(m.Rows, func(a, b Row) int {
		if by >= 0 {
			x, _ := magnitude(a[m.Keys+by])
			y, _ := magnitude(b[m.Keys+by])
			switch {
			case x > y:
				return -1
			case x < y:
				return 1
			}
		}
		return slices.CompareFunc(a, b, func(x, y any) int { return strings.Compare(fmt.Sprint(x), fmt.Sprint(y)) })
	})
}

// magnitude is a cell as a number, if it is one.
func magnitude(cell any) (float64, bool) {
	switch n := cell.(type) {
	case uint64:
		return float64(n), true
	case int64:
		return float64(n), true
	}
	return 0, false
}

// column is a part of a key or value.
type column struct {
	name       string
	offset     uint32 // bytes
	size       uint32
	typ        btf.Type // nil for bytes of no known type
	shift, max uint32   // of a bit field: its first bit, and the number of its bits; max is 0 for others
}

// columnsOf are the columns of a type with a size. It may be nil.
func columnsOf(name string, t btf.Type, size uint32) []column {
	if t == nil {
		return []column{{name: name, size: size}}
	}
	columns := flatten(nil, "", t, 0)
	if len(columns) == 1 && columns[0].name == "" {
		columns[0].name = name
	}
	return columns
}

const mostElements = 16 // of an array that are columns

func flatten(columns []column, name string, t btf.Type, offset uint32) []column {
	size, err := btf.Sizeof(t)
	if err != nil {
		return columns
	}
	leaf := column{name: name, offset: offset, size: uint32(size)}
	switch u := btf.UnderlyingType(t).(type) {
	case *btf.Struct:
		for _, m := range u.Members {
			columns = flattenMember(columns, name, m, offset)
		}
		return columns
	case *btf.Array:
		element, isInt := btf.UnderlyingType(u.Type).(*btf.Int)
		if text := isInt && element.Size == 1; text || u.Nelems > mostElements {
			if text {
				leaf.typ = u
			}
			return append(columns, leaf)
		}
		each, err := btf.Sizeof(u.Type)
		if err != nil {
			return columns
		}
		for i := range u.Nelems {
			columns = flatten(columns, fmt.Sprintf("%s[%d]", name, i), u.Type, offset+i*uint32(each))
		}
		return columns
	case *btf.Int, *btf.Enum, *btf.Pointer:
		leaf.typ = u
	}
	return append(columns, leaf)
}

func flattenMember(columns []column, name string, m btf.Member, offset uint32) []column {
	if m.Name != "" && name != "" {
		name += "."
	}
	name += m.Name
	if m.BitfieldSize == 0 {
		return flatten(columns, name, m.Type, offset+m.Offset.Bytes())
	}
	size, err := btf.Sizeof(m.Type)
	if err != nil || size > 8 || size == 0 {
		return columns
	}
	bits := uint32(m.Offset)
	start := bits / 8 / uint32(size) * uint32(size)
	return append(columns, column{name: name, offset: offset + start, size: uint32(size), typ: btf.UnderlyingType(m.Type),
		shift: bits - 8*start, max: uint32(m.BitfieldSize)})
}

// read is the column's part of a key or value.
func (c column) read(b []byte) any {
	if uint64(c.offset)+uint64(c.size) > uint64(len(b)) {
		return ""
	}
	b = b[c.offset:][:c.size]
	switch t := c.typ.(type) {
	case *btf.Int:
		if t.Size > 8 {
			break
		}
		n := c.bits(word(b))
		switch t.Encoding {
		case btf.Bool:
			return n != 0
		case btf.Signed:
			unused := 64 - 8*c.size
			if c.max > 0 {
				unused = 64 - c.max
			}
			return int64(n<<unused) >> unused
		}
		return n
	case *btf.Enum:
		n := c.bits(word(b))
		for _, v := range t.Values {
			if v.Value == n {
				return v.Name
			}
		}
		return strconv.FormatUint(n, 10)
	case *btf.Pointer:
		return fmt.Sprintf("%#x", word(b))
	case *btf.Array:
		text, _, _ := strings.Cut(string(b), "\x00")
		return text
	}
	return hex.EncodeToString(b)
}

// bits takes a bit field out of a word.
func (c column) bits(n uint64) uint64 {
	if c.max == 0 {
		return n
	}
	return n >> c.shift & (1<<c.max - 1)
}

// word is a number of up to 8 bytes, in the order of this machine's bytes.
func word(b []byte) uint64 {
	var padded [8]byte
	if bigEndian {
		copy(padded[8-len(b):], b)
	} else {
		copy(padded[:], b)
	}
	return binary.NativeEndian.Uint64(padded[:])
}

// sum adds up the column's part of the values of all CPUs. What is no number is that of the first CPU.
func (c column) sum(each [][]byte) any {
	if len(each) == 0 {
		return ""
	}
	first := c.read(each[0])
	for _, b := range each[1:] {
		switch n := first.(type) {
		case uint64:
			first = n + c.read(b).(uint64)
		case int64:
			first = n + c.read(b).(int64)
		case bool:
			first = n || c.read(b).(bool)
		}
	}
	return first
}
