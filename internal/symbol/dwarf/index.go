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
func (d *Data) unitAt(addr uint64) *unit {
	if d.whole == nil {
		if d.aranges == nil {
			d.aranges = d.readAranges()
		}
		if i, ok := d.aranges.spans.find(addr); ok {
			if u := d.unit(d.aranges.units[i]); u != nil && u.hasCode {
				return u
			}
		}
		d.whole = d.readUnits()
	}
	if i, ok := d.whole.spans.find(addr); ok {
		return d.unit(d.whole.units[i])
	}
	return nil
}

// readAranges reads .debug_aranges (DWARF 5, 6.1.2): for each unit, pairs of an address and a size, up to a pair of zeros.
func (d *Data) readAranges() *index {
	x := &index{}
	c := d.cursor(&d.s.Aranges)
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
func (d *Data) readUnits() *index {
	d.walk(uint64(len(d.s.Info.Data)))
	d.steps = maxSteps
	budget := d.rangesOf(uint64(len(d.s.Info.Data)))
	x := &index{}
	for _, off := range d.headers {
		c := d.cursor(&d.s.Info)
		c.At(off)
		u, ok := readHeader(&c)
		x.units = append(x.units, off)
		var e entry
		if !ok || !u.isKnown() {
			continue
		}
		if d.readRoot(&u, &e, d.findAbbrev); u.hasCode {
			d.eachRange(&u, &e, &budget, x.add)
		}
	}
	x.spans.sort()
	return x
}
