package dwarf

import (
	"bytes"
	"encoding/binary"
)

// Cursor reads a section from front to back. Reading beyond the end fails for good: it returns zeros, and moves the cursor to the end. So a
// caller can read several values and check Bad once.
type Cursor struct {
	section *Section
	data    []byte // the valid part of the section, at most up to end
	off     int    // can be beyond data, but not beyond end
	end     int
	big     bool
	bad     bool
}

// NewCursor returns a cursor at the start of little-endian data.
func NewCursor(data []byte) Cursor {
	return Cursor{data: data, end: len(data)}
}

func (r *reader) cursor(s *Section) Cursor {
	return Cursor{section: s, data: s.upTo(0), end: len(s.Data), big: r.s.BigEndian}
}

// Limit moves the end to an offset in the section.
func (c *Cursor) Limit(end uint64) {
	c.end = int(min(end, uint64(c.end)))
	c.data = c.data[:min(len(c.data), c.end)]
}

// Bad reports whether reading failed.
func (c *Cursor) Bad() bool {
	return c.bad
}

// Offset returns the number of bytes before the cursor.
func (c *Cursor) Offset() uint64 {
	return uint64(c.off)
}

// has reports whether n more bytes can be read.
func (c *Cursor) has(n int) bool {
	if n <= len(c.data)-c.off {
		return true
	}
	if n > c.end-c.off {
		return false
	}
	valid := c.section.upTo(uint64(c.off + n))
	c.data = valid[:min(len(valid), c.end)]
	return n <= len(c.data)-c.off
}

func (c *Cursor) fail() {
	c.bad = true
	c.off = c.end
}

// Left returns the number of bytes before the end.
func (c *Cursor) Left() uint64 {
	return uint64(c.end - c.off)
}

// At moves to an offset, and fails if it is beyond the end.
func (c *Cursor) At(off uint64) {
	if off > uint64(c.end) {
		c.fail()
		return
	}
	c.off = int(off)
}

// Skip moves forward by n bytes, and fails if that is beyond the end.
func (c *Cursor) Skip(n uint64) {
	if n > c.Left() {
		c.fail()
		return
	}
	c.off += int(n)
}

// Done reports whether the cursor is at the end.
func (c *Cursor) Done() bool {
	return c.off >= c.end
}

// U8 reads a byte.
func (c *Cursor) U8() uint8 {
	if c.off >= len(c.data) && !c.has(1) {
		c.fail()
		return 0
	}
	v := c.data[c.off]
	c.off++
	return v
}

// Uint reads a number of 1 to 8 bytes.
func (c *Cursor) Uint(size int) uint64 {
	if size > len(c.data)-c.off && !c.has(size) {
		c.fail()
		return 0
	}
	b := c.data[c.off : c.off+size]
	c.off += size
	switch {
	case size == 1:
		return uint64(b[0])
	case size == 2 && !c.big:
		return uint64(binary.LittleEndian.Uint16(b))
	case size == 4 && !c.big:
		return uint64(binary.LittleEndian.Uint32(b))
	case size == 8 && !c.big:
		return binary.LittleEndian.Uint64(b)
	}
	var v uint64
	for i := range b {
		if c.big {
			v = v<<8 | uint64(b[i])
		} else {
			v |= uint64(b[i]) << (8 * i)
		}
	}
	return v
}

// Uleb reads an unsigned LEB128 number (DWARF 5, 7.6). It drops the bits beyond 64.
func (c *Cursor) Uleb() uint64 {
	var v uint64
	for shift := 0; ; shift += 7 {
		if c.off >= len(c.data) && !c.has(1) {
			c.fail()
			return 0
		}
		b := c.data[c.off]
		c.off++
		if shift < 64 {
			v |= uint64(b&0x7f) << shift
		}
		if b < 0x80 {
			return v
		}
	}
}

// Sleb reads a signed LEB128 number. It drops the bits beyond 64.
func (c *Cursor) Sleb() int64 {
	var v int64
	for shift := 0; ; {
		if c.off >= len(c.data) && !c.has(1) {
			c.fail()
			return 0
		}
		b := c.data[c.off]
		c.off++
		if shift < 64 {
			v |= int64(b&0x7f) << shift
		}
		shift += 7
		if b < 0x80 {
			if b&0x40 != 0 && shift < 64 {
				v |= -1 << shift
			}
			return v
		}
	}
}

// skipString skips a string and its terminating zero byte.
func (c *Cursor) skipString() {
	for from := c.off; c.has(from - c.off + 1); from = len(c.data) {
		if end := bytes.IndexByte(c.data[from:], 0); end >= 0 {
			c.off = from + end + 1
			return
		}
	}
	c.fail()
}

// Text reads a string of less than most bytes and its terminating zero byte. If the string is longer, Text fails and returns its start.
func (c *Cursor) Text(most uint64) string {
	text := *c
	text.Limit(c.Offset() + most)
	text.skipString()
	start, end := c.off, text.off
	if text.bad {
		c.fail()
	} else {
		c.off = end
		end-- // without the zero byte
	}
	return string(text.data[min(start, len(text.data)):min(end, len(text.data))])
}

// These are initial lengths with a meaning: DWARF 5, 7.2.2.
const (
	lengthReserved = 0xfffffff0 // the first of them
	lengthDWARF64  = 0xffffffff
)

// UnitLength reads the length at the start of a unit. It returns the length of the rest of the unit, and the size of offsets in the unit.
func (c *Cursor) UnitLength() (length uint64, offsetSize int) {
	length = c.Uint(4)
	switch {
	case length == lengthDWARF64:
		return c.Uint(8), 8
	case length >= lengthReserved:
		c.fail()
	}
	return length, 4
}
