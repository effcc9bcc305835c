package userprog

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cilium/ebpf"

	"github.com/bperf/bperf/internal/typed"
)

// Map is the content of an object's map at one point in time.
type Map struct {
	Name    string
	Columns []string // names of the key's columns, then of the value's (typed.Column.Name)
	Keys    int      // number of columns of the key; 0 for an array that is a histogram
	Rows    []Row    // in descending order of the value's first number
	Cut     bool     // entries are missing: the map has more than mostRows, or it changed too fast
}

// Row is an entry of a map. It has a bool, int64, uint64, string or, for a histogram, []uint64 for each column. The values of a per-CPU map are
// summed up. The counts of a histogram are for the values 0 and 1, 2 and 3, 4 to 7, and so on by powers of 2.
type Row []any

// mostRows is the largest number of entries that are read from a map.
const mostRows = 1 << 20

// Maps reads the hash maps and arrays of all objects, apart from the maps named by except. It skips array elements that are 0. p may be nil.
func (p *Programs) Maps(except ...string) ([]Map, error) {
	if p == nil {
		return nil, nil
	}
	var all []Map
	for _, o := range p.objects {
		for _, name := range slices.Sorted(maps.Keys(o.spec.Maps)) {
			if strings.HasPrefix(name, ".") || !readable(o.spec.Maps[name].Type) || slices.Contains(except, name) { // maps such as .bss hold global variables
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
	keys, values := typed.Columns("key", spec.Key, spec.KeySize), typed.Columns("value", spec.Value, spec.ValueSize)
	out := Map{Name: spec.Name, Keys: len(keys)}
	for _, c := range slices.Concat(keys, values) {
		out.Columns = append(out.Columns, c.Name)
	}
	isArray := spec.Type == ebpf.Array || spec.Type == ebpf.PerCPUArray
	var err error
	out.Cut, err = eachEntry(spec, m, func(key []byte, each [][]byte) error {
		if isArray && !slices.ContainsFunc(each, func(b []byte) bool { return slices.ContainsFunc(b, func(c byte) bool { return c != 0 }) }) {
			return nil
		}
		var row Row
		for _, c := range keys {
			row = append(row, c.Read(key))
		}
		for _, c := range values {
			row = append(row, c.Sum(each))
		}
		out.Rows = append(out.Rows, row)
		return nil
	})
	if isArray && isHistogram(spec.Name) && len(out.Columns) == 2 {
		out.join(spec.MaxEntries)
	}
	out.sort()
	return out, err
}

// isHistogram reports whether an array has a name that suggests the counts of a histogram.
func isHistogram(name string) bool {
	return slices.ContainsFunc([]string{"hist", "hists", "histogram", "slots", "buckets", "log2"}, func(end string) bool { return strings.HasSuffix(name, end) })
}

// join replaces the rows of an array of numbers by a single row, a histogram. It leaves other arrays as they are.
func (m *Map) join(size uint32) {
	counts := make([]uint64, min(size, mostSlots))
	for _, row := range m.Rows {
		slot, isSlot := row[0].(uint64)
		n, isNumber := row[1].(uint64)
		if !isSlot || !isNumber || slot >= uint64(len(counts)) {
			return // no histogram
		}
		counts[slot] = n
	}
	m.Columns, m.Keys = m.Columns[1:], 0
	if len(m.Rows) > 0 {
		m.Rows = []Row{{counts}}
	}
}

// mostSlots is the largest number of slots that a histogram of 64-bit numbers can have.
const mostSlots = 64

// eachEntry calls do with each key of a map and the key's values: one for each CPU in a per-CPU map, else a single one. cut reports whether
// entries are missing, because the map has more than mostRows or changed too fast.
func eachEntry(spec *ebpf.MapSpec, m *ebpf.Map, do func(key []byte, each [][]byte) error) (cut bool, err error) {
	var key, value []byte
	var each [][]byte
	perCPU := spec.Type == ebpf.PerCPUArray || spec.Type == ebpf.PerCPUHash || spec.Type == ebpf.LRUCPUHash
	into := any(&value)
	if perCPU {
		into = &each
	}
	entries := m.Iterate()
	for n := 0; entries.Next(&key, into); n++ {
		if n == mostRows {
			return true, nil
		}
		if !perCPU {
			each = [][]byte{value}
		}
		if err := do(key, each); err != nil {
			return false, err
		}
	}
	if errors.Is(entries.Err(), ebpf.ErrIterationAborted) {
		return true, nil
	}
	return false, entries.Err()
}

// sort sorts the rows by the first number of the value, in descending order.
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

// magnitude returns a cell as a number. It returns false if the cell is no number.
func magnitude(cell any) (float64, bool) {
	switch n := cell.(type) {
	case uint64:
		return float64(n), true
	case int64:
		return float64(n), true
	}
	return 0, false
}
