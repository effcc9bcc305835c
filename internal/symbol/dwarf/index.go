package dwarf

// index maps addresses to units.
type index struct {
	spans spans    // with indexes in units
	units []uint64 // offsets in .debug_info
}

// add adds a range of addresses to the last unit.
func (x *index) add(lo, hi uint64) {
	number := int32(len(x.units) - 1)
	if last := len(x.spans) - 1; last >= 0 && x.spans[last].index == number && x.spans[last].hi == lo {
		x.spans[last].hi = hi
		return
	}
	x.spans = append(x.spans, span{lo, hi, number})
}

// unitAt returns the unit that contains an address, or nil. It tries .debug_aranges first, which avoids reading all units. But compilers
// write .debug_aranges for some units only, if at all.
func (r *reader) unitAt(addr uint64) *unit {
	if r.whole == nil {
		if r.aranges == nil {
			r.aranges = r.readAranges()
		}
		if i, ok := r.aranges.spans.find(addr); ok {
			if u := r.unit(r.aranges.units[i]); u != nil && u.hasCode {
				return u
			}
		}
		r.whole = r.readUnits()
	}
	if i, ok := r.whole.spans.find(addr); ok {
		return r.unit(r.whole.units[i])
	}
	return nil
}

// readAranges reads .debug_aranges (DWARF 5, 6.1.2): for each unit, pairs of an address and a size, up to a pair of zeros.
func (r *reader) readAranges() *index {
	x := &index{}
	c := r.cursor(&r.s.Aranges)
	for !c.Done() {
		start := c.off
		length, offsetSize := c.UnitLength()
		if c.bad || length > c.Left() {
			break
		}
		set := c
		set.Limit(uint64(c.off) + length)
		c.Skip(length)
		version, unit, size, segments := set.Uint(2), set.Uint(offsetSize), int(set.U8()), set.U8()
		if set.bad || version != 2 || size != 4 && size != 8 || segments != 0 {
			continue
		}
		set.Skip(-uint64(set.off-start) % uint64(2*size)) // the pairs are aligned, relative to the start of the set
		x.units = append(x.units, unit)
		for !set.Done() {
			lo, n := set.Uint(size), set.Uint(size)
			if !set.bad && isCode(lo, lo+n) {
				x.add(lo, lo+n)
			}
		}
	}
	x.spans.sort()
	return x
}

// readUnits indexes the address ranges in the root entries of all units.
func (r *reader) readUnits() *index {
	r.walk(uint64(len(r.s.Info.Data)))
	r.steps = maxSteps
	budget := r.rangesOf(uint64(len(r.s.Info.Data)))
	x := &index{}
	for _, off := range r.headers {
		c := r.cursor(&r.s.Info)
		c.At(off)
		u, ok := readHeader(&c)
		x.units = append(x.units, off)
		var e entry
		if !ok || !u.isKnown() {
			continue
		}
		if r.readRoot(&u, &e, r.findAbbrev); u.hasCode {
			r.eachRange(&u, &e, &budget, x.add)
		}
	}
	x.spans.sort()
	return x
}
