package perfdata

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// cursor decodes values from the front of b. Behind the end of b it returns 0 and sets short.
type cursor struct {
	b     []byte
	big   bool // big-endian
	short bool
}

func (c *cursor) bytes(n int) []byte {
	if n < 0 || n > len(c.b) {
		c.short = true
		c.b = nil
		return nil
	}
	taken := c.b[:n:n]
	c.b = c.b[n:]
	return taken
}

func (c *cursor) u16() uint16 {
	b := c.bytes(2)
	if b == nil {
		return 0
	}
	v := binary.LittleEndian.Uint16(b)
	if c.big {
		v = bits.ReverseBytes16(v)
	}
	return v
}

func (c *cursor) u32() uint32 {
	if len(c.b) < 4 {
		c.bytes(4)
		return 0
	}
	v := binary.LittleEndian.Uint32(c.b)
	c.b = c.b[4:]
	if c.big {
		v = bits.ReverseBytes32(v)
	}
	return v
}

func (c *cursor) u64() uint64 {
	if len(c.b) < 8 {
		c.bytes(8)
		return 0
	}
	v := binary.LittleEndian.Uint64(c.b)
	c.b = c.b[8:]
	if c.big {
		v = bits.ReverseBytes64(v)
	}
	return v
}

func (c *cursor) i32() int32 { return int32(c.u32()) }

// count returns n, the number of elements of at least size bytes each that follow. If the remaining bytes cannot hold them it returns 0 and
// sets short, so that a false number in a file allocates nothing.
func (c *cursor) count(n uint64, size int) int {
	if n > uint64(len(c.b)/size) {
		c.short = true
		c.b = nil
		return 0
	}
	return int(n)
}

func (c *cursor) u64s(n uint64) []uint64 {
	vs := make([]uint64, c.count(n, 8))
	for i := range vs {
		vs[i] = c.u64()
	}
	return vs
}

// text decodes a field of n bytes that holds a string, which ends at the first NUL or at the end of the field.
func (c *cursor) text(n int) string { return cString(c.bytes(n)) }

func cString(b []byte) string {
	if end := bytes.IndexByte(b, 0); end >= 0 {
		b = b[:end]
	}
	return string(b)
}

var le = binary.LittleEndian

func appendU16(b []byte, v uint16) []byte { return le.AppendUint16(b, v) }
func appendU32(b []byte, v uint32) []byte { return le.AppendUint32(b, v) }
func appendU64(b []byte, v uint64) []byte { return le.AppendUint64(b, v) }

func appendU64s(b []byte, vs []uint64) []byte {
	for _, v := range vs {
		b = appendU64(b, v)
	}
	return b
}

// appendText appends s as a field of size bytes. It truncates s so that the field always ends with a NUL.
func appendText(b []byte, s string, size int) []byte {
	s = s[:min(len(s), size-1)]
	return appendZeros(append(b, s...), size-len(s))
}

// appendPadded appends s and a NUL, padded with NULs to a multiple of align.
func appendPadded(b []byte, s string, align int) []byte {
	return appendText(b, s, roundUp(len(s)+1, align))
}

// nameAlign is the alignment to which perf pads strings in features and the names of build IDs: NAME_ALIGN.
const nameAlign = 64

var zeros [64]byte

func appendZeros(b []byte, n int) []byte {
	for ; n > len(zeros); n -= len(zeros) {
		b = append(b, zeros[:]...)
	}
	return append(b, zeros[:n]...)
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }
