package dwarf

import "slices"

// unit holds the header and the root entry of a compilation unit.
type unit struct {
	encoding
	off, end uint64 // in .debug_info, including the header
	root     uint64 // offset of the root entry
	abbrev   uint64 // offset of the abbreviation table

	base       uint64 // the base address of ranges
	addrs      uint64 // the offset in .debug_addr of index 0; the next two are alike
	strOffsets uint64
	rngLists   uint64
	rangesBase uint64
	stmtList   value
	name       value
	compDir    value
	hasCode    bool // it may have code
}

// These are the kinds of units: DWARF 5, 7.5.1.
const (
	unitCompile      = 0x01
	unitType         = 0x02
	unitSkeleton     = 0x04
	unitSplitCompile = 0x05
	unitSplitType    = 0x06
)

// readHeader reads the header of a unit. For unknown versions, only off and end are valid.
func readHeader(c *Cursor) (u unit, ok bool) {
	u.off = uint64(c.off)
	length, offsetSize := c.UnitLength()
	if c.bad || length == 0 || length > c.Left() {
		return u, false
	}
	u.end = uint64(c.off) + length
	u.offsetSize = uint8(offsetSize)
	u.version = uint16(c.Uint(2))
	kind := uint8(unitCompile)
	if u.version >= 5 {
		kind = c.U8()
		u.addrSize = c.U8()
		u.abbrev = c.Uint(offsetSize)
	} else {
		u.abbrev = c.Uint(offsetSize)
		u.addrSize = c.U8()
	}
	switch kind {
	case unitSkeleton, unitSplitCompile:
		c.Skip(8)
	case unitType, unitSplitType:
		c.Skip(8 + uint64(offsetSize))
	}
	if u.addrSize != 4 && u.addrSize != 8 {
		u.version = 0
	}
	u.root = uint64(c.off)
	// Without attributes for them, index 0 is right after the first header of the section.
	if u.version >= 5 {
		u.addrs, u.strOffsets, u.rngLists = 8, 8, 12
		if offsetSize == 8 {
			u.addrs, u.strOffsets, u.rngLists = 16, 16, 20
		}
	}
	return u, !c.bad
}

// readRoot reads the root entry of a unit. find returns the offset of an abbreviation.
func (r *reader) readRoot(u *unit, e *entry, find func(table, code uint64) (uint64, bool)) {
	c := r.unitCursor(u)
	c.At(u.root)
	table, ok := find(u.abbrev, c.Uleb())
	if !ok {
		return
	}
	r.read(&c, u, table, e)
	if c.bad || e.tag != tagCompileUnit && e.tag != tagSkeletonUnit {
		return
	}
	u.hasCode = true
	for _, base := range []struct {
		to   *uint64
		from value
	}{{&u.addrs, e.addrBase}, {&u.strOffsets, e.strOffsetsBase}, {&u.rngLists, e.rngListsBase}, {&u.rangesBase, e.rangesBase}} {
		if base.from.kind != none {
			*base.to = base.from.n
		}
	}
	u.stmtList, u.name, u.compDir = e.stmtList, e.name, e.compDir
	u.base, _ = r.addr(u, e.low)
}

// unitCursor returns a cursor at the start of .debug_info that ends with the unit.
func (r *reader) unitCursor(u *unit) Cursor {
	c := r.cursor(&r.s.Info)
	c.Limit(u.end)
	return c
}

// rangesOf returns a limit for the number of ranges in the given number of bytes of .debug_info. Only hostile files exceed it, by referring
// to one list from many entries. Otherwise, each list belongs to one entry, and takes at least 8 bytes per range, or 3 in version 5.
func (r *reader) rangesOf(info uint64) int {
	return int(info)/8 + len(r.s.Ranges.Data)/8 + len(r.s.RngLists.Data)/3
}

// unit returns the unit whose header is at an offset in .debug_info, or nil if it is not known.
func (r *reader) unit(off uint64) *unit {
	u, ok := r.known[off]
	if ok {
		return u
	}
	c := r.cursor(&r.s.Info)
	c.At(off)
	if read, ok := readHeader(&c); ok && read.isKnown() {
		var e entry
		u = &read
		r.readRoot(u, &e, func(table, code uint64) (uint64, bool) { return r.abbrevTable(table).find(code) })
	}
	if r.known == nil {
		r.known = make(map[uint64]*unit)
	}
	r.known[off] = u
	return u
}

func (u *unit) isKnown() bool {
	return u.root < u.end && u.version >= 2 && u.version <= 5
}

// unitOf returns the unit that contains an offset in .debug_info, or nil.
func (r *reader) unitOf(off uint64) *unit {
	r.walk(off)
	i, found := slices.BinarySearch(r.headers, off)
	if !found {
		i--
	}
	if i < 0 {
		return nil
	}
	u := r.unit(r.headers[i])
	if u == nil || off < u.root || off >= u.end {
		return nil
	}
	return u
}

// walk finds the units up to the one that contains an offset in .debug_info.
func (r *reader) walk(off uint64) {
	c := r.cursor(&r.s.Info)
	for c.At(r.walked); !c.Done() && r.walked <= off; r.walked = uint64(c.off) {
		u, ok := readHeader(&c)
		if !ok {
			c.fail()
			continue
		}
		r.headers = append(r.headers, u.off)
		c.At(u.end)
	}
}
