package dwarf

import (
	"cmp"
	"slices"
)

// span maps the addresses from lo up to, but not including, hi to an index.
type span struct {
	lo, hi uint64
	index  int32
}

type spans []span

// maxOverlap limits how many spans are tried for an address. Spans from compilers and linkers do not overlap.
const maxOverlap = 64

func (s spans) sort() {
	slices.SortFunc(s, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.lo, b.lo), cmp.Compare(b.hi, a.hi), cmp.Compare(a.index, b.index))
	})
}

// find returns the index of the span that contains addr; if there are several, of the one that starts last.
func (s spans) find(addr uint64) (index int32, ok bool) {
	found, ok := s.findSpan(addr)
	return found.index, ok
}

func (s spans) findSpan(addr uint64) (found span, ok bool) {
	i, _ := slices.BinarySearchFunc(s, addr, func(s span, addr uint64) int {
		if s.lo <= addr {
			return -1
		}
		return 1
	})
	for first := max(0, i-maxOverlap); i > first; i-- {
		if addr < s[i-1].hi {
			return s[i-1], true
		}
	}
	return span{}, false
}

// isCode reports whether an address range can be code. Code that linkers discarded has a start of zero, or one of the highest addresses.
func isCode(lo, hi uint64) bool {
	return lo != 0 && lo < hi && lo < 1<<64-2
}
