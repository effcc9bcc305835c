package dwarf

import (
	"cmp"
	"slices"
)

// unit is what the header of a compilation unit says, and its root entry.
type unit struct {
	encoding
	off, end uint64 // in .debug_info, with the header
	root     uint64 // the offset of the root entry
	abbrev   uint64 // the offset of the abbreviation table

	base       uint64 // that ranges count from
	addrs      uint64 // the offset in .debug_addr that indices count from; and so on
	strOffsets uint64
	rngLists   uint64
	rangesBase uint64
	stmtList   value
	name       value
	compDir    value
}

// Kinds of units: DWARF 5, 7.5.1.
const (
	unitCompile      = 0x01
	unitType         = 0x02
	unitSkeleton     = 0x04
	unitSplitCompile = 0x05
	unitSplitType    = 0x06
)

// index finds the units, and the addresses that each one has code at.
func (d *Data) index() {
	d.units = []unit{}
	d.budget = d.rangesOf(uint64(len(d.s.Info)))
	d.steps = maxSteps
	c := d.cursor(d.s.Info)
	for !c.done() {
		u, ok := readHeader(&c)
		if !ok {
			break
		}
		c.at(u.end)
		if u.root >= u.end || u.version < 2 || u.version > 5 {
			continue
		}
		d.units = append(d.units, u)
		d.indexUnit(int32(len(d.units) - 1))
	}
	d.spans.sort()
}

// readHeader reads the header of a unit. Units of unknown versions have no more than their length.
func readHeader(c *cursor) (u unit, ok bool) {
	u.off = uint64(c.off)
	length, offsetSize := c.unitLength()
	if c.bad || length == 0 || length > uint64(len(c.data)-c.off) {
		return u, false
	}
	u.end = uint64(c.off) + length
	u.offsetSize = uint8(offsetSize)
	u.version = uint16(c.uint(2))
	kind := uint8(unitCompile)
	if u.version >= 5 {
		kind = c.u8()
		u.addrSize = c.u8()
		u.abbrev = c.uint(offsetSize)
	} else {
		u.abbrev = c.uint(offsetSize)
		u.addrSize = c.u8()
	}
	switch kind {
	case unitSkeleton, unitSplitCompile:
		c.skip(8)
	case unitType, unitSplitType:
		c.skip(8 + uint64(offsetSize))
	}
	if u.addrSize != 4 && u.addrSize != 8 {
		u.version = 0
	}
	u.root = uint64(c.off)
	// Where a unit has no attributes for them, indices count from behind the first header of the sections.
	if u.version >= 5 {
		u.addrs, u.strOffsets, u.rngLists = 8, 8, 12
		if offsetSize == 8 {
			u.addrs, u.strOffsets, u.rngLists = 16, 16, 20
		}
	}
	return u, !c.bad
}

// indexUnit reads the root entry of a unit and adds the addresses of its code to the spans.
func (d *Data) indexUnit(i int32) {
	u := &d.units[i]
	c := d.cursor(d.s.Info[:u.end])
	c.at(u.root)
	var e entry
	table, ok := d.findAbbrev(u.abbrev, c.uleb())
	if !ok {
		return
	}
	d.read(&c, u, table, &e)
	if c.bad || e.tag != tagCompileUnit && e.tag != tagSkeletonUnit {
		return
	}
	for _, base := range []struct {
		to   *uint64
		from value
	}{{&u.addrs, e.addrBase}, {&u.strOffsets, e.strOffsetsBase}, {&u.rngLists, e.rngListsBase}, {&u.rangesBase, e.rangesBase}} {
		if base.from.kind != none {
			*base.to = base.from.n
		}
	}
	u.stmtList, u.name, u.compDir = e.stmtList, e.name, e.compDir
	u.base, _ = d.addr(u, e.low)
	d.eachRange(u, &e, &d.budget, func(lo, hi uint64) {
		if last := len(d.spans) - 1; last >= 0 && d.spans[last].index == i && d.spans[last].hi == lo {
			d.spans[last].hi = hi
			return
		}
		d.spans = append(d.spans, span{lo, hi, i})
	})
}

// rangesOf is more than the number of ranges that so much of .debug_info has by rights: a list is of one entry, and takes
// at least 8 bytes for a range, or 3 in version 5. Hostile files refer to one list from many places.
func (d *Data) rangesOf(info uint64) int {
	return int(info)/8 + len(d.s.Ranges)/8 + len(d.s.RngLists)/3
}

// unitOf returns the unit that an offset in .debug_info is in, or nil.
func (d *Data) unitOf(off uint64) *unit {
	if d.units == nil {
		d.index()
	}
	i, found := slices.BinarySearchFunc(d.units, off, func(u unit, off uint64) int { return cmp.Compare(u.off, off) })
	if !found {
		i--
	}
	if i < 0 || off < d.units[i].root || off >= d.units[i].end {
		return nil
	}
	return &d.units[i]
}
