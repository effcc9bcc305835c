package replay

import (
	"slices"
	"sort"
)

// mapping is a mapped range of an address space. It is immutable.
type mapping struct {
	Start, End uint64 // addresses; End is exclusive
	Offset     uint64 // file offset of Start
	DSO        *DSO

	execs             uint32 // number of execs of its process before it was mapped
	protection, flags uint32 // of mmap(2); only of mappings of processes
}

// part returns a part of a mapping.
func (m *mapping) part(start, end uint64) *mapping {
	p := *m
	p.Start, p.End, p.Offset = start, end, m.Offset+start-m.Start
	return &p
}

// addr converts an address in memory to one in the DSO: an offset in the file. Addresses in the kernel, and in memory without a file, stay
// as they are.
func (m *mapping) addr(ip uint64) uint64 {
	if m.DSO.inMemory {
		return ip
	}
	return ip - m.Start + m.Offset
}

// addressSpace is the mappings of an address space at one time, by address. Once shared, it is immutable.
type addressSpace struct {
	list   []*mapping
	shared bool
}

// find returns the mapping that contains an address, or nil.
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

// share marks an address space as shared, so that the next change copies it.
func (m *addressSpace) share() *addressSpace {
	m.shared = true
	return m
}

// insert maps n. It replaces the mappings in n's range and keeps their parts on both sides. It returns the address space with the change.
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
			pieces = append(pieces, old.part(old.Start, n.Start))
		}
	}
	pieces = append(pieces, n)
	if first < last {
		if old := m.list[last-1]; old.End > n.End {
			pieces = append(pieces, old.part(n.End, old.End))
		}
	}
	return m.replace(first, last, pieces...)
}

// insertBehind maps n only where nothing is mapped, possibly in several pieces. It returns the address space with the change.
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
		m = m.replace(i, i, n.part(start, end))
		start = end
	}
	return m
}

// remove removes the matching mappings that start in a range. It returns the address space with the change.
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
