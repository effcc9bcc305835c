package replay

import (
	"slices"
	"sort"
)

// mapping is a piece of address space and what is in it. It does not change once it is made.
type mapping struct {
	Start, End uint64 // addresses, up to but not including End
	Offset     uint64 // in the file, of Start
	DSO        *DSO

	execs uint32 // of its process, before it was mapped
}

// addr turns an address into one in the DSO: an offset in a file; what has no file, and the kernel, is known by addresses in memory.
func (m *mapping) addr(ip uint64) uint64 {
	if m.DSO.inMemory {
		return ip
	}
	return ip - m.Start + m.Offset
}

// addressSpace is what an address space holds at a moment, by address. Once it is shared it does not change any more.
type addressSpace struct {
	list   []*mapping
	shared bool
}

// find returns the mapping that an address is in, or nil.
func (m *addressSpace) find(ip uint64) *mapping {
	lo, hi := 0, len(m.list)
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		if m.list[mid].End <= ip {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo < len(m.list) && m.list[lo].Start <= ip {
		return m.list[lo]
	}
	return nil
}

// share marks what is handed out, so that the next change makes a copy.
func (m *addressSpace) share() *addressSpace {
	m.shared = true
	return m
}

// insert puts a mapping in the place of what was there, of which parts can be left on both sides, and returns the maps that have it.
func (m *addressSpace) insert(n *mapping) *addressSpace {
	if n.End <= n.Start {
		return m
	}
	first := sort.Search(len(m.list), func(i int) bool { return m.list[i].End > n.Start })
	last := first
	for last < len(m.list) && m.list[last].Start < n.End {
		last++
	}
	pieces := make([]*mapping, 0, 3)
	if first < last {
		if old := m.list[first]; old.Start < n.Start {
			pieces = append(pieces, &mapping{old.Start, n.Start, old.Offset, old.DSO, old.execs})
		}
	}
	pieces = append(pieces, n)
	if first < last {
		if old := m.list[last-1]; old.End > n.End {
			pieces = append(pieces, &mapping{n.End, old.End, old.Offset + n.End - old.Start, old.DSO, old.execs})
		}
	}
	return m.replace(first, last, pieces...)
}

// insertBehind puts a mapping where nothing is, which can be in several pieces, and returns the maps that have it.
func (m *addressSpace) insertBehind(n *mapping) *addressSpace {
	for start := n.Start; start < n.End; {
		i := sort.Search(len(m.list), func(i int) bool { return m.list[i].End > start })
		end := n.End
		if i < len(m.list) {
			if m.list[i].Start <= start {
				start = m.list[i].End
				continue
			}
			end = min(end, m.list[i].Start)
		}
		m = m.replace(i, i, &mapping{start, end, n.Offset + start - n.Start, n.DSO, n.execs})
		start = end
	}
	return m
}

// remove takes out the mappings that start in a range, and returns the maps without them.
func (m *addressSpace) remove(start, end uint64, matches func(*mapping) bool) *addressSpace {
	at := func(address uint64) int {
		return sort.Search(len(m.list), func(i int) bool { return m.list[i].Start >= address })
	}
	first := at(start)
	last := max(first, at(end))
	left := slices.DeleteFunc(slices.Clone(m.list[first:last]), matches)
	if len(left) == last-first {
		return m
	}
	return m.replace(first, last, left...)
}

func (m *addressSpace) replace(first, last int, with ...*mapping) *addressSpace {
	if !m.shared {
		m.list = slices.Replace(m.list, first, last, with...)
		return m
	}
	list := make([]*mapping, 0, len(m.list)+len(with)+4)
	list = append(append(append(list, m.list[:first]...), with...), m.list[last:]...)
	return &addressSpace{list: list}
}
