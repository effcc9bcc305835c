package symbol

import (
	"cmp"
	"slices"
	"strings"
)

// Table finds the symbol of an address. It does not change once it is made, so goroutines may share it.
type Table struct {
	symbols []Symbol // by Start, which differs for each
	within  []int32  // of each symbol, the index of the one that it lies in, or -1; nil where none lies in another
}

// afterLast is where a last symbol of unknown size ends: with the page after its own, as perf has it.
const afterLast = 4096

// maxNesting bounds what Find takes in tables that no compiler makes.
const maxNesting = 16

// NewTable makes a table of symbols, which it copies and may change. One of unknown size ends where the next one starts. Of those that
// start together it keeps the one that perf keeps, which depends on their order, too: an end is found first, and so the last of them has a
// size in any case.
func NewTable(parts ...[]Symbol) *Table {
	order := byStart(parts)
	for i, at := range order {
		s := at.of(parts)
		if s.End > s.Start {
			continue
		}
		if i+1 < len(order) {
			s.End = order[i+1].start
		} else if s.End = (s.Start+afterLast-1)&^(afterLast-1) + afterLast; s.End < s.Start {
			s.End = ^uint64(0)
		}
	}
	order = withoutAliases(parts, order)
	kept := make([]Symbol, len(order))
	for i, at := range order {
		kept[i] = *at.of(parts)
	}
	return &Table{kept, enclosing(kept)}
}

// place is where a symbol is among others.
type place struct {
	start          uint64
	part, position uint32
}

func (p *place) of(parts [][]Symbol) *Symbol { return &parts[p.part][p.position] }

// byStart orders symbols by their start, and those that start together as they stand.
func byStart(parts [][]Symbol) []place {
	n := 0
	for _, part := range parts {
		n += len(part)
	}
	order := make([]place, 0, n)
	for i, part := range parts {
		for k := range part {
			order = append(order, place{part[k].Start, uint32(i), uint32(k)})
		}
	}
	slices.SortFunc(order, func(a, b place) int {
		if a.start != b.start {
			return cmp.Compare(a.start, b.start)
		}
		return cmp.Or(cmp.Compare(a.part, b.part), cmp.Compare(a.position, b.position))
	})
	return order
}

// withoutAliases keeps the best of each row of symbols that start together.
func withoutAliases(parts [][]Symbol, order []place) []place {
	kept := order[:0]
	for _, at := range order {
		last := len(kept) - 1
		if last < 0 || kept[last].start != at.start {
			kept = append(kept, at)
		} else if prefer(at.of(parts), kept[last].of(parts)) < 0 {
			kept[last] = at
		}
	}
	return kept
}

// enclosing finds the symbols that lie within others: assembler code has such, and functions split by the compiler.
func enclosing(symbols []Symbol) []int32 {
	var within []int32
	var open []int32
	for i := range symbols {
		for len(open) > 0 && symbols[open[len(open)-1]].End <= symbols[i].Start {
			open = open[:len(open)-1]
		}
		if n := len(open); n > 0 && n <= maxNesting {
			if within == nil {
				within = slices.Repeat([]int32{-1}, len(symbols))
			}
			within[i] = open[n-1]
		}
		open = append(open, int32(i))
	}
	return within
}

// prefer orders symbols that start together, the best first: one with a size, not weak, global; then by its name for a
// reader.
func prefer(a, b *Symbol) int {
	return cmp.Or(
		first(a.End > a.Start, b.End > b.Start),
		first(a.Binding != Weak, b.Binding != Weak),
		first(a.Binding == Global, b.Binding == Global),
		preferName(a.Name, b.Name),
	)
}

// preferName orders names, the best first: with fewer underscores in front, the longer one, and not one of the kernel's
// SyS_ aliases. Names are compared as perf has them, which is demangled.
func preferName(a, b string) int {
	if a == b {
		return 0
	}
	a, b = Demangle(a), Demangle(b)
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

// Find returns the symbol that addr is in, the innermost if it is in several, or nil. It does not allocate.
func (t *Table) Find(addr uint64) *Symbol {
	lo, hi := 0, len(t.symbols)
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		if t.symbols[mid].Start <= addr {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	for i := lo - 1; i >= 0; {
		if s := &t.symbols[i]; addr < s.End {
			return s
		}
		if t.within == nil {
			return nil
		}
		i = int(t.within[i])
	}
	return nil
}

// All returns the symbols by address. They are the table's own: to be read only.
func (t *Table) All() []Symbol {
	return t.symbols
}
