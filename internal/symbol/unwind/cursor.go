package unwind

import (
	"bytes"
	"encoding/binary"
)

// cursor reads little-endian data from front to back. Reading beyond the end returns zeros and sets bad.
type cursor struct {
	data []byte
	off  int
	bad  bool
}

func (c *cursor) more() bool { return c.off < len(c.data) }

func (c *cursor) fail() {
	c.bad = true
	c.off = len(c.data)
}

// bytes returns the next n bytes.
func (c *cursor) bytes(n uint64) []byte {
	if n > uint64(len(c.data)-c.off) {
		c.fail()
		return nil
	}
	b := c.data[c.off : c.off+int(n)]
	c.off += int(n)
	return b
}

func (c *cursor) u8() uint8 {
	if b := c.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (c *cursor) u16() uint16 {
	if b := c.bytes(2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

func (c *cursor) u32() uint32 {
	if b := c.bytes(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (c *cursor) u64() uint64 {
	if b := c.bytes(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (c *cursor) uleb() uint64 {
	v, _ := c.leb()
	return v
}

func (c *cursor) sleb() int64 {
	v, bits := c.leb()
	if bits < 64 && bits > 0 && v>>(bits-1)&1 == 1 {
		v |= ^uint64(0) << bits
	}
	return int64(v)
}

// leb reads a LEB128 number (DWARF 5, 7.6), and returns it and its number of bits.
func (c *cursor) leb() (v uint64, bits uint) {
	for {
		b := c.u8()
		if bits < 64 {
			v |= uint64(b&0x7f) << bits
		}
		bits += 7
		if b < 0x80 {
			return v, bits
		}
	}
}

// maxText limits strings, so that reading many long ones takes no more time than reading the section.
const maxText = 64

// text reads a string that ends with a zero byte.
func (c *cursor) text() string {
	rest := c.data[c.off:]
	end := bytes.IndexByte(rest[:min(maxText, len(rest))], 0)
	if end < 0 {
		c.fail()
		return ""
	}
	return string(c.bytes(uint64(end) + 1)[:end])
}
