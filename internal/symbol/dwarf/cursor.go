package dwarf

import (
	"bytes"
	"encoding/binary"
)

// cursor reads a section from front to back. Reading beyond the end returns zeros and sets bad for good, so a caller can read several
// values and check once.
type cursor struct {
	section *Section
	data    []byte // the valid part of the section, at most up to end
	off     int    // can be beyond data, but not beyond end
	end     int
	big     bool
	bad     bool
}

func (d *Data) cursor(s *Section) cursor {
	return cursor{section: s, data: s.upTo(0), end: len(s.Data), big: d.s.BigEndian}
}

// limit moves the end to an offset in the section.
func (c *cursor) limit(end uint64) {
	c.end = int(min(end, uint64(c.end)))
	c.data = c.data[:min(len(c.data), c.end)]
}

// has reports whether n more bytes can be read.
func (c *cursor) has(n int) bool {
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

func (c *cursor) fail() {
	c.bad = true
	c.off = c.end
}

// left returns the number of bytes before the end.
func (c *cursor) left() uint64 {
	return uint64(c.end - c.off)
}

// at moves to an offset, and fails if it is beyond the end.
func (c *cursor) at(off uint64) {
	if off > uint64(c.end) {
		c.fail()
		return
	}
	c.off = int(off)
}

func (c *cursor) skip(n uint64) {
	if n > c.left() {
		c.fail()
		return
	}
	c.off += int(n)
}

func (c *cursor) done() bool {
	return c.off >= c.end
}

func (c *cursor) u8() uint8 {
	if c.off >= len(c.data) && !c.has(1) {
		c.fail()
		return 0
	}
	v := c.data[c.off]
	c.off++
	return v
}

// uint reads a number of 1 to 8 bytes.
func (c *cursor) uint(size int) uint64 {
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

func (c *cursor) uleb() uint64 {
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

func (c *cursor) sleb() int64 {
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
func (c *cursor) skipString() {
	for from := c.off; c.has(from - c.off + 1); from = len(c.data) {
		if end := bytes.IndexByte(c.data[from:], 0); end >= 0 {
			c.off = from + end + 1
			return
		}
	}
	c.fail()
}

// unitLength reads the length at the start of a unit. It returns the length of the rest of the unit, and the size of offsets in the unit.
func (c *cursor) unitLength() (length uint64, offsetSize int) {
	length = c.uint(4)
	switch {
	case length == 0xffffffff:
		return c.uint(8), 8
	case length >= 0xfffffff0: // reserved
		c.fail()
		return 0, 4
	}
	return length, 4
}
