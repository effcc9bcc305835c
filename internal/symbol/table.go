package symbol

import (
	"bytes"
	"cmp"
	"iter"
	"math"
	"slices"
	"strings"
	"unsafe"
)

// Table finds the symbol of an address. It is immutable and safe for concurrent use.
type Table struct {
	entries []entry // sorted by start; no two start at the same address
	names   string  // each ends with a zero byte
	within  []int32 // for each entry the index of the entry that encloses it, or -1; nil if no entry is enclosed
}

// entry is a symbol in 24 bytes: a large program has hundreds of thousands of symbols.
type entry struct {
	start, end uint64
	name       uint32 // offset in names
	binding    Binding
}

// EndOfLast returns the end of a symbol of unknown size that starts at start and has no successor. As in perf, that is
// roundup(start, 4096) + 4096.
func EndOfLast(start uint64) uint64 {
	const page = 4096
	end := (start+page-1)&^(page-1) + page
	if end < start {
		return math.MaxUint64
	}
	return end
}

// maxNesting limits how many enclosing symbols Find visits. No compiler makes a table that nests deeper.
const maxNesting = 16

// Builder collects the symbols of a table.
type Builder struct {
	entries []entry
	names   []byte
}

// Grow makes room for the given number of symbols, whose names have the given number of bytes in total.
func (b *Builder) Grow(symbols, names int) {
	b.entries = slices.Grow(b.entries, symbols)
	b.names = slices.Grow(b.names, names+symbols)
}

// Add adds a symbol with the given name; it ignores s.Name. It drops the symbol if all names together would exceed 4 GiB.
func (b *Builder) Add(s Symbol, name []byte) {
	if uint64(len(b.names))+uint64(len(name)) >= math.MaxUint32 {
		return
	}
	b.entries = append(b.entries, entry{s.Start, s.End, uint32(len(b.names)), s.Binding})
	b.names = append(append(b.names, name...), 0)
}

// symbol returns the Symbol of an entry. Its name is valid until the next change of b.
func (b *Builder) symbol(e *entry) Symbol {
	name := b.names[e.name:]
	return Symbol{unsafe.String(unsafe.SliceData(name), bytes.IndexByte(name, 0)), e.start, e.end, e.binding}
}

// Table returns the table of all added symbols and empties the builder. A symbol of unknown size ends where the next one starts. Of the
// symbols with the same start, Table keeps the one that perf keeps. That choice depends on the order in which they were added, because ends
// are set first: the last of them always has a size.
func (b *Builder) Table() *Table {
	all := sortedByStart(b.entries)
	for i := range all {
		e := &all[i]
		if e.end > e.start {
			continue
		}
		if i+1 < len(all) {
			e.end = all[i+1].start
		} else {
			e.end = EndOfLast(e.start)
		}
	}
	kept := b.withoutAliases(all)
	if wasteful(cap(kept), len(kept)) {
		kept = slices.Clone(kept)
	}
	t := &Table{entries: kept, names: b.namesOf(kept), within: enclosing(kept)}
	*b = Builder{}
	return t
}

// sortedByStart returns the entries sorted by start. Those with the same start stay in the order of Add. It is a radix sort, because comparing
// entries took a fifth of the CPU time of a live profile. The result may be another slice, and all is changed.
func sortedByStart(all []entry) []entry {
	first, last, sorted := uint64(math.MaxUint64), uint64(0), true
	for i := range all {
		sorted = sorted && all[i].start >= last
		first, last = min(first, all[i].start), max(last, all[i].start)
	}
	if sorted {
		return all
	}
	const digits = 1 << 11
	other := make([]entry, len(all))
	for shift := 0; shift < 64 && (last-first)>>shift > 0; shift += 11 {
		var next [digits]int // where the next entry with each digit goes
		digit := func(e *entry) uint64 { return (e.start - first) >> shift % digits }
		for i := range all {
			next[digit(&all[i])]++
		}
		sum := 0
		for d, n := range next {
			next[d], sum = sum, sum+n
		}
		for i := range all {
			d := digit(&all[i])
			other[next[d]] = all[i]
			next[d]++
		}
		all, other = other, all
	}
	return all
}

// wasteful reports whether memory of this size is copied so that it has only what is used of it. Tables are kept for long.
func wasteful(size, used int) bool { return size > used+used/8 }

// withoutAliases keeps the best of the symbols that start at the same address. The entries must be sorted by start.
func (b *Builder) withoutAliases(all []entry) []entry {
	kept := all[:0]
	var best candidate // of the last entry in kept
	known := false     // best is set: the entry has aliases
	for i := range all {
		e := &all[i]
		last := len(kept) - 1
		if last < 0 || kept[last].start != e.start {
			kept, known = append(kept, *e), false
			continue
		}
		if !known {
			best, known = candidate{Symbol: b.symbol(&kept[last])}, true
		}
		if alias := (candidate{Symbol: b.symbol(e)}); prefer(&alias, &best) < 0 {
			kept[last], best = *e, alias
		}
	}
	return kept
}

// candidate is one of several symbols at the same address. Its name is demangled at most once.
type candidate struct {
	Symbol
	demangled string // empty until needed
}

func (c *candidate) plain() string {
	if c.demangled == "" {
		c.demangled = Demangle(c.Name)
	}
	return c.demangled
}

// namesOf returns the names of a table. If they are wasteful, it copies them without the names of aliases and updates the entries.
func (b *Builder) namesOf(entries []entry) string {
	size := 0
	for i := range entries {
		size += bytes.IndexByte(b.names[entries[i].name:], 0) + 1
	}
	if !wasteful(cap(b.names), size) {
		return unsafe.String(unsafe.SliceData(b.names), len(b.names)) // nothing changes them from now on
	}
	var names strings.Builder
	names.Grow(size)
	for i := range entries {
		e := &entries[i]
		name := b.names[e.name:]
		e.name = uint32(names.Len())
		names.Write(name[:bytes.IndexByte(name, 0)+1])
	}
	return names.String()
}

// enclosing returns, for each entry, the index of the entry that encloses it, or -1. Assembler code and functions that the compiler split
// have such symbols. It returns nil if no entry is enclosed.
func enclosing(entries []entry) []int32 {
	var within []int32
	var open []int32
	for i := range entries {
		for len(open) > 0 && entries[open[len(open)-1]].end <= entries[i].start {
			open = open[:len(open)-1]
		}
		if n := len(open); n > 0 && n <= maxNesting {
			if within == nil {
				within = slices.Repeat([]int32{-1}, len(entries))
			}
			within[i] = open[n-1]
		}
		open = append(open, int32(i))
	}
	return within
}

// prefer orders symbols with the same start, the best first: with a size before without, strong before weak, global before local, then by
// preferName.
func prefer(a, b *candidate) int {
	return cmp.Or(
		first(a.End > a.Start, b.End > b.Start),
		first(a.Binding != Weak, b.Binding != Weak),
		first(a.Binding == Global, b.Binding == Global),
		preferName(a, b),
	)
}

// preferName orders names, the best first: fewer leading underscores, then the longer name, then names other than the kernel's SyS_
// aliases. Like perf, it compares demangled names.
func preferName(x, y *candidate) int {
	if x.Name == y.Name {
		return 0
	}
	a, b := x.plain(), y.plain()
	return cmp.Or(
		cmp.Compare(underscores(a), underscores(b)),
		cmp.Compare(len(b), len(a)),
		first(!isSyscallAlias(a), !isSyscallAlias(b)),
	)
}

func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

func underscores(name string) int {
	return len(name) - len(strings.TrimLeft(name, "_"))
}

func isSyscallAlias(name string) bool {
	return strings.HasPrefix(name, "SyS") || strings.HasPrefix(name, "compat_SyS")
}

// Find returns the innermost symbol that contains addr, and false if there is none. It does not allocate.
func (t *Table) Find(addr uint64) (Symbol, bool) {
	lo, hi := 0, len(t.entries)
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		if t.entries[mid].start <= addr {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	for i := lo - 1; i >= 0; {
		if addr < t.entries[i].end {
			return t.symbol(i), true
		}
		if t.within == nil {
			break
		}
		i = int(t.within[i])
	}
	return Symbol{}, false
}

func (t *Table) symbol(i int) Symbol {
	e := &t.entries[i]
	name, _, _ := strings.Cut(t.names[e.name:], "\x00")
	return Symbol{name, e.start, e.end, e.binding}
}

// All returns the symbols, sorted by address.
func (t *Table) All() iter.Seq[Symbol] {
	return func(yield func(Symbol) bool) {
		for i := range t.entries {
			if !yield(t.symbol(i)) {
				return
			}
		}
	}
}
