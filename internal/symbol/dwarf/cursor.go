package dwarf

import (
	"bytes"
	"encoding/binary"
)

// cursor reads a section from front to back. Reading past its end gives zeros and sets bad, once and for all, so that
// a caller may read several things and ask once.
type cursor struct {
	data []byte
	off  int
	big  bool
	bad  bool
}

func (c *cursor) fail() {
	c.bad = true
	c.off = len(c.data)
}

// at moves to an offset, which may be beyond the end.
func (c *cursor) at(off uint64) {
	if off > uint64(len(c.data)) {
		c.fail()
		return
	}
	c.off = int(off)
}

func (c *cursor) skip(n uint64) {
	if n > uint64(len(c.data)-c.off) {
		c.fail()
		return
	}
	c.off += int(n)
}

func (c *cursor) done() bool {
	return c.off >= len(c.data)
}

func (c *cursor) u8() uint8 {
	if c.off >= len(c.data) {
		c.fail()
		return 0
	}
	v := c.data[c.off]
	c.off++
	return v
}

// uint reads a number of 1 to 8 bytes.
func (c *cursor) uint(size int) uint64 {
	if size > len(c.data)-c.off {
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
		if c.off >= len(c.data) {
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
		if c.off >= len(c.data) {
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

// skipString passes over a string and the zero byte at its end.
func (c *cursor) skipString() {
	end := bytes.IndexByte(c.data[c.off:], 0)
	if end < 0 {
		c.fail()
		return
	}
	c.off += end + 1
}

// unitLength reads the length that a unit begins with: the rest of the unit, and the size of offsets in it.
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
