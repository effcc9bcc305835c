package dwarf

// These are the forms of attributes: DWARF 5, 7.5.6, and those of GNU for split and supplementary files.
const (
	formAddr          = 0x01
	formBlock2        = 0x03
	formBlock4        = 0x04
	formData2         = 0x05
	formData4         = 0x06
	formData8         = 0x07
	formString        = 0x08
	formBlock         = 0x09
	formBlock1        = 0x0a
	formData1         = 0x0b
	formFlag          = 0x0c
	formSdata         = 0x0d
	formStrp          = 0x0e
	formUdata         = 0x0f
	formRefAddr       = 0x10
	formRef1          = 0x11
	formRef2          = 0x12
	formRef4          = 0x13
	formRef8          = 0x14
	formRefUdata      = 0x15
	formIndirect      = 0x16
	formSecOffset     = 0x17
	formExprloc       = 0x18
	formFlagPresent   = 0x19
	formStrx          = 0x1a
	formAddrx         = 0x1b
	formRefSup4       = 0x1c
	formStrpSup       = 0x1d
	formData16        = 0x1e
	formLineStrp      = 0x1f
	formRefSig8       = 0x20
	formImplicitConst = 0x21
	formLoclistx      = 0x22
	formRnglistx      = 0x23
	formRefSup8       = 0x24
	formStrx1         = 0x25
	formStrx2         = 0x26
	formStrx3         = 0x27
	formStrx4         = 0x28
	formAddrx1        = 0x29
	formAddrx2        = 0x2a
	formAddrx3        = 0x2b
	formAddrx4        = 0x2c
	formGNUAddrIndex  = 0x1f01
	formGNUStrIndex   = 0x1f02
	formGNURefAlt     = 0x1f20
	formGNUStrpAlt    = 0x1f21
)

// kind is the meaning of a value's number.
type kind uint8

const (
	none         kind = iota // no such attribute, or one that this package ignores
	constant                 // the constant
	address                  // the address
	addressIndex             // index in .debug_addr
	reference                // offset in .debug_info
	refSup                   // offset in .debug_info of the supplementary file
	offset                   // offset in the section that the attribute refers to
	listIndex                // index in .debug_rnglists
	inline                   // offset in .debug_info of a string
	lineInline               // offset in .debug_line of a string
	str                      // offset in .debug_str
	lineStr                  // offset in .debug_line_str
	strIndex                 // index in .debug_str_offsets
	strSup                   // offset in .debug_str of the supplementary file
)

type value struct {
	n    uint64
	kind kind
}

// encoding holds the properties of a unit that determine the size of some forms.
type encoding struct {
	version    uint16
	addrSize   uint8
	offsetSize uint8
}

// value reads the value of an attribute. It does not copy strings, but returns where they are. unit is the offset that references are
// relative to.
func (c *Cursor) value(form uint64, e encoding, unit uint64) value {
	for range 2 { // an indirect form names another form, at most once
		switch form {
		case formAddr:
			return value{c.Uint(int(e.addrSize)), address}
		case formData1, formFlag:
			return value{uint64(c.U8()), constant}
		case formData2:
			return value{c.Uint(2), constant}
		case formData4:
			return value{c.Uint(4), constant}
		case formData8:
			return value{c.Uint(8), constant}
		case formSdata:
			return value{uint64(c.Sleb()), constant}
		case formUdata:
			return value{c.Uleb(), constant}
		case formFlagPresent:
			return value{1, constant}
		case formString:
			at := uint64(c.off)
			c.skipString()
			return value{at, inline}
		case formStrp:
			return value{c.Uint(int(e.offsetSize)), str}
		case formLineStrp:
			return value{c.Uint(int(e.offsetSize)), lineStr}
		case formStrpSup, formGNUStrpAlt:
			return value{c.Uint(int(e.offsetSize)), strSup}
		case formStrx, formGNUStrIndex:
			return value{c.Uleb(), strIndex}
		case formStrx1, formStrx2, formStrx3, formStrx4:
			return value{c.Uint(int(form-formStrx1) + 1), strIndex}
		case formAddrx, formGNUAddrIndex:
			return value{c.Uleb(), addressIndex}
		case formAddrx1, formAddrx2, formAddrx3, formAddrx4:
			return value{c.Uint(int(form-formAddrx1) + 1), addressIndex}
		case formRef1:
			return value{unit + uint64(c.U8()), reference}
		case formRef2:
			return value{unit + c.Uint(2), reference}
		case formRef4:
			return value{unit + c.Uint(4), reference}
		case formRef8:
			return value{unit + c.Uint(8), reference}
		case formRefUdata:
			return value{unit + c.Uleb(), reference}
		case formRefAddr:
			if e.version <= 2 {
				return value{c.Uint(int(e.addrSize)), reference}
			}
			return value{c.Uint(int(e.offsetSize)), reference}
		case formGNURefAlt:
			return value{c.Uint(int(e.offsetSize)), refSup}
		case formRefSup4:
			return value{c.Uint(4), refSup}
		case formRefSup8:
			return value{c.Uint(8), refSup}
		case formSecOffset:
			return value{c.Uint(int(e.offsetSize)), offset}
		case formRnglistx:
			return value{c.Uleb(), listIndex}
		case formIndirect:
			form = c.Uleb()
		default:
			c.skipValue(form)
			return value{}
		}
	}
	c.fail()
	return value{}
}

// skipValue skips the value of an attribute that this package ignores.
func (c *Cursor) skipValue(form uint64) {
	switch form {
	case formLoclistx:
		c.Uleb()
	case formRefSig8:
		c.Skip(8)
	case formData16:
		c.Skip(16)
	case formBlock1:
		c.Skip(uint64(c.U8()))
	case formBlock2:
		c.Skip(c.Uint(2))
	case formBlock4:
		c.Skip(c.Uint(4))
	case formBlock, formExprloc:
		c.Skip(c.Uleb())
	default: // an unknown form has an unknown size, so nothing after it can be read
		c.fail()
	}
}

// maxString limits the length of strings, in bytes: a hostile file can refer to a long string many times.
const maxString = 16 << 10

func (r *reader) stringAt(section *Section, off uint64) string {
	c := r.cursor(section)
	c.At(off)
	return c.Text(maxString)
}

// text returns the string that a value of the unit refers to, or "".
func (r *reader) text(u *unit, v value) string {
	switch v.kind {
	case inline:
		return r.stringAt(&r.s.Info, v.n)
	case lineInline:
		return r.stringAt(&r.s.Line, v.n)
	case str:
		return r.stringAt(&r.s.Str, v.n)
	case lineStr:
		return r.stringAt(&r.s.LineStr, v.n)
	case strIndex:
		if at, ok := r.entry(&r.s.StrOffsets, u.strOffsets, v.n, int(u.offsetSize)); ok {
			return r.stringAt(&r.s.Str, at)
		}
	case strSup:
		if r.sup != nil {
			return r.sup.stringAt(&r.sup.s.Str, v.n)
		}
	}
	return ""
}

// addr returns the address that a value of the unit refers to, and false if it refers to none.
func (r *reader) addr(u *unit, v value) (uint64, bool) {
	switch v.kind {
	case address:
		return v.n, true
	case addressIndex:
		return r.entry(&r.s.Addr, u.addrs, v.n, int(u.addrSize))
	}
	return 0, false
}

// entry reads a number in a table that starts at base.
func (r *reader) entry(table *Section, base, index uint64, size int) (uint64, bool) {
	if n := uint64(len(table.Data)); index > n || base > n {
		return 0, false
	}
	c := r.cursor(table)
	c.At(base + index*uint64(size))
	v := c.Uint(size)
	return v, !c.bad
}
