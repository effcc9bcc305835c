package perfdata

import (
	"math/bits"
	"slices"
)

// arena holds the variable-length parts of samples. It grows to the size that a batch needs and is then reused.
type arena struct {
	words    []uint64
	readings []Reading
	branches []Branch
}

func (a *arena) reset() {
	a.words, a.readings, a.branches = a.words[:0], a.readings[:0], a.branches[:0]
}

// take appends n elements to *all and returns them. Slices that it returned before stay valid, even if *all is reallocated.
func take[T any](all *[]T, n int) []T {
	from := len(*all)
	*all = slices.Grow(*all, n)[:from+n]
	return (*all)[from : from+n : from+n]
}

func (c *cursor) words(a *arena, n uint64) []uint64 {
	size := c.count(n, 8)
	words := take(&a.words, size)
	b := c.b[:size*8]
	c.b = c.b[size*8:]
	if c.big {
		for i := range words {
			words[i] = bits.ReverseBytes64(le.Uint64(b[i*8:]))
		}
		return words
	}
	for i := range words {
		words[i] = le.Uint64(b[i*8:])
	}
	return words
}

// sample decodes all of a sample but its header.
func (c *cursor) sample(s *Sample, attr *Attr, a *arena) error {
	t := attr.SampleType
	*s = Sample{SampleID: SampleID{Fields: t}}
	if t&SampleIdentifier != 0 {
		s.ID = c.u64()
	}
	if t&SampleIP != 0 {
		s.IP = c.u64()
	}
	if t&SampleTID != 0 {
		s.PID, s.TID = c.i32(), c.i32()
	}
	if t&SampleTime != 0 {
		s.Time = c.u64()
	}
	if t&SampleAddr != 0 {
		s.Addr = c.u64()
	}
	if t&SampleEventID != 0 {
		s.ID = c.u64()
	}
	if t&SampleStreamID != 0 {
		s.StreamID = c.u64()
	}
	if t&SampleCPU != 0 {
		s.CPU = c.u32()
		c.u32()
	}
	if t&SamplePeriod != 0 {
		s.Period = c.u64()
	}
	if t&SampleRead != 0 {
		c.readings(&s.Read, attr.ReadFormat, a)
	}
	if t&SampleCallchain != 0 {
		s.Callchain = c.words(a, c.u64())
	}
	if t&^plainSample != 0 {
		c.sampleParts(s, attr, a)
	}
	if c.short {
		return errShort
	}
	if len(c.b) > 0 {
		s.Rest = c.b
	}
	return nil
}

// plainSample are the fields that most samples have. They come first in a sample.
const plainSample = SampleIdentifier | SampleIP | SampleTID | SampleTime | SampleAddr | SampleEventID | SampleStreamID | SampleCPU |
	SamplePeriod | SampleRead | SampleCallchain

// sampleParts decodes the fields after the callchain.
func (c *cursor) sampleParts(s *Sample, attr *Attr, a *arena) {
	t := attr.SampleType
	if t&SampleRaw != 0 {
		s.Raw = c.bytes(c.count(uint64(c.u32()), 1))
	}
	if t&SampleBranchStack != 0 {
		c.branchStack(s, attr.BranchSampleType, a)
	}
	if t&SampleRegsUser != 0 {
		c.registers(&s.UserRegs, attr.SampleRegsUser, a)
	}
	if t&SampleStackUser != 0 {
		c.userStack(s)
	}
	if t&(SampleWeight|SampleWeightStruct) != 0 {
		s.Weight = Weight(c.u64())
	}
	if t&SampleDataSrc != 0 {
		s.DataSource = DataSource(c.u64())
	}
	if t&SampleTransaction != 0 {
		s.Transaction = c.u64()
	}
	if t&SampleRegsIntr != 0 {
		c.registers(&s.IntrRegs, attr.SampleRegsIntr, a)
	}
	if t&SamplePhysAddr != 0 {
		s.PhysAddr = c.u64()
	}
	if t&SampleCgroup != 0 {
		s.Cgroup = c.u64()
	}
	if t&SampleDataPageSize != 0 {
		s.DataPageSize = c.u64()
	}
	if t&SampleCodePageSize != 0 {
		s.CodePageSize = c.u64()
	}
	if t&SampleAux != 0 {
		s.Aux = c.bytes(c.count(c.u64(), 1))
	}
}

func (c *cursor) readings(r *Readings, f ReadFormat, a *arena) {
	r.Format = f
	n := uint64(1)
	if f&ReadGroup != 0 {
		n = c.u64()
		c.readTimes(r)
	}
	r.Values = take(&a.readings, c.count(n, 8))
	for i := range r.Values {
		v := &r.Values[i]
		*v = Reading{Value: c.u64()}
		if f&ReadGroup == 0 {
			c.readTimes(r)
		}
		if f&ReadID != 0 {
			v.ID = c.u64()
		}
		if f&ReadLost != 0 {
			v.Lost = c.u64()
		}
	}
}

func (c *cursor) readTimes(r *Readings) {
	if r.Format&ReadTotalTimeEnabled != 0 {
		r.Enabled = c.u64()
	}
	if r.Format&ReadTotalTimeRunning != 0 {
		r.Running = c.u64()
	}
}

func (c *cursor) branchStack(s *Sample, t BranchSampleType, a *arena) {
	n := c.u64()
	if t&BranchHWIndex != 0 {
		s.BranchHWIndex = c.u64()
	}
	s.Branches = take(&a.branches, c.count(n, 24))
	for i := range s.Branches {
		s.Branches[i] = Branch{From: c.u64(), To: c.u64(), Flags: branchFlags(c.u64(), c.big)}
	}
	if t&BranchCounters != 0 {
		s.BranchCounters = c.words(a, n)
	}
}

// branchFlags converts the bit fields of a big-endian machine, which begin at the highest bit, to the layout of a little-endian machine.
func branchFlags(v uint64, big bool) BranchFlags {
	if !big {
		return BranchFlags(v)
	}
	var flags uint64
	at := 0
	for _, width := range [...]int{1, 1, 1, 1, 16, 4, 2, 4, 3, 31} {
		flags |= v >> (64 - at - width) & (1<<width - 1) << at
		at += width
	}
	return BranchFlags(flags)
}

func (c *cursor) registers(r *Registers, mask uint64, a *arena) {
	r.ABI = c.u64()
	if r.ABI == 0 {
		return
	}
	r.Mask = mask
	r.Values = c.words(a, uint64(bits.OnesCount64(mask)))
}

func (c *cursor) userStack(s *Sample) {
	size := c.u64()
	if size == 0 {
		return
	}
	stack := c.bytes(c.count(size, 1))
	used := c.u64() // dyn_size
	if used > size {
		c.short = true
		return
	}
	s.UserStack = stack[:min(used, uint64(len(stack)))]
}

// append appends the fields of a sample that attr selects.
func (s *Sample) append(b []byte, attr *Attr) []byte {
	t := attr.SampleType
	if t&SampleIdentifier != 0 {
		b = appendU64(b, s.ID)
	}
	if t&SampleIP != 0 {
		b = appendU64(b, s.IP)
	}
	if t&SampleTID != 0 {
		b = appendU32(appendU32(b, uint32(s.PID)), uint32(s.TID))
	}
	if t&SampleTime != 0 {
		b = appendU64(b, s.Time)
	}
	if t&SampleAddr != 0 {
		b = appendU64(b, s.Addr)
	}
	if t&SampleEventID != 0 {
		b = appendU64(b, s.ID)
	}
	if t&SampleStreamID != 0 {
		b = appendU64(b, s.StreamID)
	}
	if t&SampleCPU != 0 {
		b = appendU32(appendU32(b, s.CPU), 0)
	}
	if t&SamplePeriod != 0 {
		b = appendU64(b, s.Period)
	}
	if t&SampleRead != 0 {
		b = s.Read.append(b, attr.ReadFormat)
	}
	if t&SampleCallchain != 0 {
		b = appendU64s(appendU64(b, uint64(len(s.Callchain))), s.Callchain)
	}
	if t&SampleRaw != 0 {
		b = append(appendU32(b, uint32(len(s.Raw))), s.Raw...)
	}
	if t&SampleBranchStack != 0 {
		b = s.appendBranches(b, attr.BranchSampleType)
	}
	if t&SampleRegsUser != 0 {
		b = s.UserRegs.append(b)
	}
	if t&SampleStackUser != 0 {
		b = s.appendUserStack(b)
	}
	if t&(SampleWeight|SampleWeightStruct) != 0 {
		b = appendU64(b, uint64(s.Weight))
	}
	if t&SampleDataSrc != 0 {
		b = appendU64(b, uint64(s.DataSource))
	}
	if t&SampleTransaction != 0 {
		b = appendU64(b, s.Transaction)
	}
	if t&SampleRegsIntr != 0 {
		b = s.IntrRegs.append(b)
	}
	if t&SamplePhysAddr != 0 {
		b = appendU64(b, s.PhysAddr)
	}
	if t&SampleCgroup != 0 {
		b = appendU64(b, s.Cgroup)
	}
	if t&SampleDataPageSize != 0 {
		b = appendU64(b, s.DataPageSize)
	}
	if t&SampleCodePageSize != 0 {
		b = appendU64(b, s.CodePageSize)
	}
	if t&SampleAux != 0 {
		b = append(appendU64(b, uint64(len(s.Aux))), s.Aux...)
	}
	return append(b, s.Rest...)
}

func (r *Readings) append(b []byte, f ReadFormat) []byte {
	if f&ReadGroup != 0 {
		b = r.appendTimes(appendU64(b, uint64(len(r.Values))), f)
	}
	for i := range r.Values {
		v := &r.Values[i]
		b = appendU64(b, v.Value)
		if f&ReadGroup == 0 {
			b = r.appendTimes(b, f)
		}
		if f&ReadID != 0 {
			b = appendU64(b, v.ID)
		}
		if f&ReadLost != 0 {
			b = appendU64(b, v.Lost)
		}
	}
	return b
}

func (r *Readings) appendTimes(b []byte, f ReadFormat) []byte {
	if f&ReadTotalTimeEnabled != 0 {
		b = appendU64(b, r.Enabled)
	}
	if f&ReadTotalTimeRunning != 0 {
		b = appendU64(b, r.Running)
	}
	return b
}

func (s *Sample) appendBranches(b []byte, t BranchSampleType) []byte {
	b = appendU64(b, uint64(len(s.Branches)))
	if t&BranchHWIndex != 0 {
		b = appendU64(b, s.BranchHWIndex)
	}
	for _, br := range s.Branches {
		b = appendU64(appendU64(appendU64(b, br.From), br.To), uint64(br.Flags))
	}
	if t&BranchCounters != 0 {
		b = appendU64s(b, s.BranchCounters)
	}
	return b
}

func (r *Registers) append(b []byte) []byte {
	b = appendU64(b, r.ABI)
	if r.ABI == 0 {
		return b
	}
	return appendU64s(b, r.Values)
}

func (s *Sample) appendUserStack(b []byte) []byte {
	size := roundUp(len(s.UserStack), 8)
	b = appendU64(b, uint64(size))
	if size == 0 {
		return b
	}
	b = appendZeros(append(b, s.UserStack...), size-len(s.UserStack))
	return appendU64(b, uint64(len(s.UserStack)))
}

// trailerSize returns the size of struct sample_id in bytes.
func trailerSize(t SampleType) int {
	return 8 * bits.OnesCount64(uint64(t&trailerFields))
}

const trailerFields = SampleTID | SampleTime | SampleEventID | SampleStreamID | SampleCPU | SampleIdentifier

// trailer decodes struct sample_id. c must have all of its bytes.
func (c *cursor) trailer(t SampleType) (id SampleID) {
	id.Fields = t & trailerFields
	if t&SampleTID != 0 {
		id.PID, id.TID = c.i32(), c.i32()
	}
	if t&SampleTime != 0 {
		id.Time = c.u64()
	}
	if t&SampleEventID != 0 {
		id.ID = c.u64()
	}
	if t&SampleStreamID != 0 {
		id.StreamID = c.u64()
	}
	if t&SampleCPU != 0 {
		id.CPU = c.u32()
		c.u32()
	}
	if t&SampleIdentifier != 0 {
		id.ID = c.u64()
	}
	return id
}

func (id *SampleID) appendTrailer(b []byte, t SampleType) []byte {
	if t&SampleTID != 0 {
		b = appendU32(appendU32(b, uint32(id.PID)), uint32(id.TID))
	}
	if t&SampleTime != 0 {
		b = appendU64(b, id.Time)
	}
	if t&SampleEventID != 0 {
		b = appendU64(b, id.ID)
	}
	if t&SampleStreamID != 0 {
		b = appendU64(b, id.StreamID)
	}
	if t&SampleCPU != 0 {
		b = appendU32(appendU32(b, id.CPU), 0)
	}
	if t&SampleIdentifier != 0 {
		b = appendU64(b, id.ID)
	}
	return b
}
