package dwarf

// abbrevs holds the offsets of the declarations in an abbreviation table, by abbreviation code. The codes are almost always 1, 2, 3 and so
// on; sparse has the others.
type abbrevs struct {
	dense  []uint32
	sparse map[uint64]uint32
}

// maxTables is the number of tables that are kept. Units that refer to each other need several tables at a time.
const maxTables = 64

func (r *reader) abbrevTable(off uint64) abbrevs {
	if t, ok := r.tables[off]; ok {
		return t
	}
	var t abbrevs
	c := r.cursor(&r.s.Abbrev)
	for c.At(off); ; {
		code := c.Uleb()
		if code == 0 || c.bad || uint64(c.off) > 1<<32-1 {
			break
		}
		if code == uint64(len(t.dense))+1 {
			t.dense = append(t.dense, uint32(c.off))
		} else {
			if t.sparse == nil {
				t.sparse = make(map[uint64]uint32)
			}
			if _, ok := t.sparse[code]; !ok {
				t.sparse[code] = uint32(c.off)
			}
		}
		c.skipAbbrev()
	}
	if r.tables == nil || len(r.tables) >= maxTables {
		r.tables = make(map[uint64]abbrevs)
	}
	r.tables[off] = t
	return t
}

func (t abbrevs) find(code uint64) (off uint64, ok bool) {
	if code-1 < uint64(len(t.dense)) {
		return uint64(t.dense[code-1]), true
	}
	at, ok := t.sparse[code]
	return uint64(at), ok
}

// findAbbrev returns the offset of a declaration without keeping the table: the index of units needs only the first declarations of each
// unit.
func (r *reader) findAbbrev(table, want uint64) (off uint64, ok bool) {
	c := r.cursor(&r.s.Abbrev)
	for c.At(table); ; {
		code := c.Uleb()
		if code == want && !c.bad {
			return uint64(c.off), true
		}
		if r.steps--; code == 0 || c.bad || r.steps < 0 {
			return 0, false
		}
		c.skipAbbrev()
	}
}

// skipAbbrev skips a declaration, after its code.
func (c *Cursor) skipAbbrev() {
	c.Uleb()
	c.U8()
	for {
		attr, form := c.Uleb(), c.Uleb()
		if form == formImplicitConst {
			c.Sleb()
		}
		if attr == 0 && form == 0 || c.bad {
			return
		}
	}
}
