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

// Table finds the symbol of an address. It does not change once it is made, so goroutines may share it.
type Table struct {
	entries []entry // by start, which differs for each
	names   string  // each with a zero behind it
	within  []int32 // of each entry, the index of the one that it lies in, or -1; nil where none lies in another
}

// entry is a symbol in 24 bytes: a large program has hundreds of thousands.
type entry struct {
	start, end uint64
	name       uint32 // where it starts in names
	binding    Binding
}

// afterLast is where a last symbol of unknown size ends: with the page after its own, as perf has it.
const afterLast = 4096

// maxNesting bounds what Find takes in tables that no compiler makes.
const maxNesting = 16

// Builder collects the symbols of a table.
type Builder struct {
	entries []entry
	names   []byte
}

// Grow makes room for so many symbols more, with names of so many bytes together.
func (b *Builder) Grow(symbols, names int) {
	b.entries = slices.Grow(b.entries, symbols)
	b.names = slices.Grow(b.names, names+symbols)
}

// Add adds a symbol, without the name that it has. Names of more than 4 GiB together are not kept.
func (b *Builder) Add(s Symbol, name []byte) {
	if uint64(len(b.names))+uint64(len(name)) >= math.MaxUint32 {
		return
	}
	b.entries = append(b.entries, entry{s.Start, s.End, uint32(len(b.names)), s.Binding})
	b.names = append(append(b.names, name...), 0)
}

// symbol makes one of an entry.
func (b *Builder) symbol(e *entry) Symbol {
	name := b.names[e.name:]
	return Symbol{string(name[:bytes.IndexByte(name, 0)]), e.start, e.end, e.binding}
}

// Table makes a table of what was added, and takes it. A symbol of unknown size ends where the next one starts. Of those that
// start together it keeps the one that perf keeps, which depends on the order in which they were added, too: an end is found first, and so the
// last of them has a size in any case.
func (b *Builder) Table() *Table {
	all := b.entries
	slices.SortFunc(all, func(a, b entry) int {
		if a.start != b.start {
			return cmp.Compare(a.start, b.start)
		}
		return cmp.Compare(a.name, b.name) // as they were added
	})
	for i := range all {
		e := &all[i]
		if e.end > e.start {
			continue
		}
		if i+1 < len(all) {
			e.end = all[i+1].start
		} else if e.end = (e.start+afterLast-1)&^(afterLast-1) + afterLast; e.end < e.start {
			e.end = ^uint64(0)
		}
	}
	kept := b.withoutAliases(all)
	if cap(kept) > 2*len(kept) {
		kept = slices.Clone(kept)
	}
	t := &Table{entries: kept, names: b.namesOf(kept), within: enclosing(kept)}
	*b = Builder{}
	return t
}

// withoutAliases keeps the best of each row of symbols that start together.
func (b *Builder) withoutAliases(all []entry) []entry {
	kept := all[:0]
	var best *candidate // the last of kept, as long as it has aliases
	for _, e := range all {
		last := len(kept) - 1
		if last < 0 || kept[last].start != e.start {
			kept, best = append(kept, e), nil
			continue
		}
		if best == nil {
			best = &candidate{Symbol: b.symbol(&kept[last])}
		}
		if alias := (&candidate{Symbol: b.symbol(&e)}); prefer(alias, best) < 0 {
			kept[last], best = e, alias
		}
	}
	return kept
}

// candidate is a symbol among its aliases. Its name is demangled once, whatever their number.
type candidate struct {
	Symbol
	demangled string // empty until it is needed
}

func (c *candidate) plain() string {
	if c.demangled == "" {
		c.demangled = Demangle(c.Name)
	}
	return c.demangled
}

// namesOf makes the names of a table. If it is worth a copy, it leaves out those of aliases, and moves the others, which entries then lead to.
func (b *Builder) namesOf(entries []entry) string {
	size := 0
	for i := range entries {
		size += bytes.IndexByte(b.names[entries[i].name:], 0) + 1
	}
	if cap(b.names) <= 2*size {
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

// enclosing finds the symbols that lie within others: assembler code has such, and functions split by the compiler.
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

// prefer orders symbols that start together, the best first: one with a size, not weak, global; then by its name for a
// reader.
func prefer(a, b *candidate) int {
	return cmp.Or(
		first(a.End > a.Start, b.End > b.Start),
		first(a.Binding != Weak, b.Binding != Weak),
		first(a.Binding == Global, b.Binding == Global),
		preferName(a, b),
	)
}

// preferName orders names, the best first: with fewer underscores in front, the longer one, and not one of the kernel's
// SyS_ aliases. Names are compared as perf has them, which is demangled.
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

// Find returns the symbol that addr is in, the innermost if it is in several; false if there is none. It does not allocate.
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

// All are the symbols by address.
func (t *Table) All() iter.Seq[Symbol] {
	return func(yield func(Symbol) bool) {
		for i := range t.entries {
			if !yield(t.symbol(i)) {
				return
			}
		}
	}
}
