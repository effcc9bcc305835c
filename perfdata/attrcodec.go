package perfdata

import (
	"fmt"
	"math/bits"
)

// minAttrSize is PERF_ATTR_SIZE_VER0. maxAttrSize is the page size of most machines: no kernel accepts more than a page.
const (
	minAttrSize = 64
	maxAttrSize = 4096
)

// decodeAttr decodes a struct perf_event_attr of len(b) bytes.
func decodeAttr(b []byte, big bool) (a Attr, err error) {
	if len(b) < minAttrSize {
		return a, fmt.Errorf("%d bytes are no perf_event_attr, which has at least %d", len(b), minAttrSize)
	}
	// Fields beyond the end of b are zero.
	var full [AttrSize]byte
	copy(full[:], b)
	c := cursor{b: full[:], big: big}
	a.Type = c.u32()
	a.Size = uint32(len(b))
	c.u32()
	a.Config = c.u64()
	a.SamplePeriod = c.u64()
	a.SampleType = SampleType(c.u64())
	a.ReadFormat = ReadFormat(c.u64())
	flags := c.u64()
	if big { // a big-endian machine lays out bit fields from the highest bit on
		flags = bits.Reverse64(flags)
		precise := flags & uint64(AttrPreciseIP1|AttrPreciseIP2)
		flags &^= precise
		flags |= precise&uint64(AttrPreciseIP1)<<1 | precise&uint64(AttrPreciseIP2)>>1
	}
	a.Flags = AttrFlags(flags)
	a.WakeupEvents = c.u32()
	a.BPType = c.u32()
	a.Config1 = c.u64()
	a.Config2 = c.u64()
	a.BranchSampleType = BranchSampleType(c.u64())
	a.SampleRegsUser = c.u64()
	a.SampleStackUser = c.u32()
	a.ClockID = c.i32()
	a.SampleRegsIntr = c.u64()
	a.AuxWatermark = c.u32()
	a.SampleMaxStack = c.u16()
	c.u16()
	a.AuxSampleSize = c.u32()
	a.AuxAction = c.u32()
	a.SigData = c.u64()
	a.Config3 = c.u64()
	a.Config4 = c.u64()
	return a, nil
}

// size returns the number of bytes that the attribute has when it is written.
func (a *Attr) size() int {
	if a.Size < minAttrSize || a.Size > AttrSize {
		return AttrSize
	}
	return int(a.Size)
}

// appendAttr appends the first size bytes of the attribute. size is at most AttrSize.
func appendAttr(b []byte, a *Attr, size int) []byte {
	start := len(b)
	b = appendU32(b, a.Type)
	b = appendU32(b, uint32(size))
	b = appendU64(b, a.Config)
	b = appendU64(b, a.SamplePeriod)
	b = appendU64(b, uint64(a.SampleType))
	b = appendU64(b, uint64(a.ReadFormat))
	b = appendU64(b, uint64(a.Flags))
	b = appendU32(b, a.WakeupEvents)
	b = appendU32(b, a.BPType)
	b = appendU64(b, a.Config1)
	b = appendU64(b, a.Config2)
	b = appendU64(b, uint64(a.BranchSampleType))
	b = appendU64(b, a.SampleRegsUser)
	b = appendU32(b, a.SampleStackUser)
	b = appendU32(b, uint32(a.ClockID))
	b = appendU64(b, a.SampleRegsIntr)
	b = appendU32(b, a.AuxWatermark)
	b = appendU16(b, a.SampleMaxStack)
	b = appendU16(b, 0)
	b = appendU32(b, a.AuxSampleSize)
	b = appendU32(b, a.AuxAction)
	b = appendU64(b, a.SigData)
	b = appendU64(b, a.Config3)
	b = appendU64(b, a.Config4)
	return b[:start+size]
}
