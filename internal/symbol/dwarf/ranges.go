package dwarf

// These are the kinds of entries in range lists: DWARF 5, 7.25.
const (
	rleBaseAddressx = 0x01
	rleStartxEndx   = 0x02
	rleStartxLength = 0x03
	rleOffsetPair   = 0x04
	rleBaseAddress  = 0x05
	rleStartEnd     = 0x06
	rleStartLength  = 0x07
)

// eachRange calls yield with each address range of an entry. Each range that it reads from a list costs one from the budget.
func (r *reader) eachRange(u *unit, e *entry, budget *int, yield func(lo, hi uint64)) {
	if e.ranges.kind == none {
		lo, ok := r.addr(u, e.low)
		if !ok {
			return
		}
		hi, ok := r.addr(u, e.high)
		if e.high.kind == constant {
			hi, ok = lo+e.high.n, true
		}
		if ok && isCode(lo, hi) {
			yield(lo, hi)
		}
		return
	}
	if u.version >= 5 {
		r.eachOfRngList(u, e.ranges, budget, yield)
		return
	}
	r.eachOfRanges(u, e.ranges.n+u.rangesBase, budget, yield)
}

func (r *reader) eachOfRanges(u *unit, off uint64, budget *int, yield func(lo, hi uint64)) {
	c := r.cursor(&r.s.Ranges)
	c.At(off)
	base := u.base
	highest := uint64(1)<<(8*u.addrSize-1)<<1 - 1
	for ; *budget > 0; *budget-- {
		lo, hi := c.Uint(int(u.addrSize)), c.Uint(int(u.addrSize))
		switch {
		case c.bad || lo == 0 && hi == 0:
			return
		case lo == highest:
			base = hi
		case isCode(base+lo, base+hi):
			yield(base+lo, base+hi)
		}
	}
}

func (r *reader) eachOfRngList(u *unit, list value, budget *int, yield func(lo, hi uint64)) {
	off := list.n
	if list.kind == listIndex {
		at, ok := r.entry(&r.s.RngLists, u.rngLists, list.n, int(u.offsetSize))
		if !ok {
			return
		}
		off = u.rngLists + at
	}
	c := r.cursor(&r.s.RngLists)
	c.At(off)
	indexed := func() uint64 {
		a, _ := r.addr(u, value{c.Uleb(), addressIndex})
		return a
	}
	base := u.base
	for ; !c.bad && *budget > 0; *budget-- {
		var lo, hi uint64
		switch c.U8() {
		case rleBaseAddressx:
			base = indexed()
			continue
		case rleBaseAddress:
			base = c.Uint(int(u.addrSize))
			continue
		case rleStartxEndx:
			lo = indexed()
			hi = indexed()
		case rleStartxLength:
			lo = indexed()
			hi = lo + c.Uleb()
		case rleOffsetPair:
			lo = base + c.Uleb()
			hi = base + c.Uleb()
		case rleStartEnd:
			lo = c.Uint(int(u.addrSize))
			hi = c.Uint(int(u.addrSize))
		case rleStartLength:
			lo = c.Uint(int(u.addrSize))
			hi = lo + c.Uleb()
		default: // end of list, or an unknown kind
			return
		}
		if !c.bad && isCode(lo, hi) {
			yield(lo, hi)
		}
	}
}
