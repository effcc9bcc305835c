package dwarf

// These are the tags of entries: DWARF 5, 7.5.3.
const (
	tagCompileUnit       = 0x11
	tagInlinedSubroutine = 0x1d
	tagSubprogram        = 0x2e
	tagSkeletonUnit      = 0x4a
)

// These are the attributes: DWARF 5, 7.5.4, and those of GNU and MIPS that precede the standard ones.
const (
	attrSibling         = 0x01
	attrName            = 0x03
	attrStmtList        = 0x10
	attrLowPC           = 0x11
	attrHighPC          = 0x12
	attrCompDir         = 0x1b
	attrAbstractOrigin  = 0x31
	attrDeclLine        = 0x3b
	attrSpecification   = 0x47
	attrRanges          = 0x55
	attrCallColumn      = 0x57
	attrCallFile        = 0x58
	attrCallLine        = 0x59
	attrLinkageName     = 0x6e
	attrStrOffsetsBase  = 0x72
	attrAddrBase        = 0x73
	attrRnglistsBase    = 0x74
	attrMIPSLinkageName = 0x2007
	attrGNURangesBase   = 0x2132
	attrGNUAddrBase     = 0x2133
)

// entry holds the attributes of a debugging information entry that this package uses: a field for each. A map by attribute would allocate
// for each entry.
type entry struct {
	tag         uint64
	hasChildren bool

	name, linkageName                                  value
	low, high, ranges                                  value
	origin, specification                              value
	sibling                                            value
	declLine, callFile, callLine, callColumn           value
	stmtList, compDir                                  value
	addrBase, strOffsetsBase, rngListsBase, rangesBase value
}

// read reads an entry after its code. table is the offset of the abbreviation.
func (r *reader) read(c *Cursor, u *unit, table uint64, e *entry) {
	*e = entry{}
	a := r.cursor(&r.s.Abbrev)
	a.At(table)
	e.tag = a.Uleb()
	e.hasChildren = a.U8() != 0
	for {
		attr, form := a.Uleb(), a.Uleb()
		if attr == 0 && form == 0 || a.bad || c.bad {
			return
		}
		var v value
		if form == formImplicitConst {
			v = value{uint64(a.Sleb()), constant}
		} else {
			v = c.value(form, u.encoding, u.off)
		}
		if to := e.field(attr); to != nil {
			*to = v
		}
	}
}

func (e *entry) field(attr uint64) *value {
	switch attr {
	case attrSibling:
		return &e.sibling
	case attrName:
		return &e.name
	case attrLinkageName, attrMIPSLinkageName:
		return &e.linkageName
	case attrLowPC:
		return &e.low
	case attrHighPC:
		return &e.high
	case attrRanges:
		return &e.ranges
	case attrAbstractOrigin:
		return &e.origin
	case attrSpecification:
		return &e.specification
	case attrDeclLine:
		return &e.declLine
	case attrCallFile:
		return &e.callFile
	case attrCallLine:
		return &e.callLine
	case attrCallColumn:
		return &e.callColumn
	case attrStmtList:
		return &e.stmtList
	case attrCompDir:
		return &e.compDir
	case attrAddrBase, attrGNUAddrBase:
		return &e.addrBase
	case attrStrOffsetsBase:
		return &e.strOffsetsBase
	case attrRnglistsBase:
		return &e.rngListsBase
	case attrGNURangesBase:
		return &e.rangesBase
	}
	return nil
}

// readAt reads the entry at an offset in .debug_info, and reports whether there is one.
func (r *reader) readAt(u *unit, off uint64, e *entry) bool {
	c := r.unitCursor(u)
	c.At(off)
	table, ok := r.abbrevTable(u.abbrev).find(c.Uleb())
	if !ok {
		return false
	}
	r.read(&c, u, table, e)
	return !c.bad
}
