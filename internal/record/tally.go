package record

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/bperf/bperf/perfdata"
)

// tally counts the records on their way from the rings to the file.
type tally struct {
	counts

	timeAt   int                          // offset of the time in samples; 0 if they have none
	mapped   func(name []byte, pid int32) // is called for each executable mapping
	buildIDs bool                         // records of mappings may have build IDs
	task     func(perfdata.Value)         // Sums.Task
	tasks    uint64                       // number of calls of task
	scratch  []byte
	stray    []int // offsets of the records of the last call of add that hasBuildIDBit
}

// counts say what happened to the samples of a recording.
type counts struct {
	samples   uint64
	lost      uint64 // from records of lost samples and records
	noRoom    uint64 // samples that found no room, from the events' counts and the size of a record
	throttled uint64
	filtered  uint64 // see Result
	missed    uint64
	wakeups   uint64
	drained   uint64
	first     uint64 // time of the first sample, ns; 0 if there is none
	last      uint64
}

// newTally returns a tally for samples of a type. The fields before the time are the same for all events of a recording.
func newTally(sampleType perfdata.SampleType, mapped func(name []byte, pid int32)) *tally {
	t := &tally{mapped: mapped}
	if sampleType&perfdata.SampleTime == 0 {
		return t
	}
	t.timeAt = headerSize
	for _, bit := range []perfdata.SampleType{perfdata.SampleIdentifier, perfdata.SampleIP, perfdata.SampleTID} {
		if sampleType&bit != 0 {
			t.timeAt += 8
		}
	}
	return t
}

const headerSize = 8 // struct perf_event_header: u32 type, u16 misc, u16 size

// add tallies the records of a ring, in two parts if they wrap around its end. Records are aligned to 8 bytes, so no header is split.
func (t *tally) add(first, rest []byte) error {
	var earliest, latest uint64
	t.stray = t.stray[:0]
	for at := 0; at < len(first)+len(rest); {
		b := first
		from := at
		if at >= len(first) {
			b, from = rest, at-len(first)
		}
		b = b[from:]
		if len(b) < headerSize {
			return fmt.Errorf("a ring buffer ends with %d bytes, which are no record", len(b))
		}
		size := int(binary.NativeEndian.Uint16(b[6:]))
		if size < headerSize || at+size > len(first)+len(rest) {
			return fmt.Errorf("a record in a ring buffer says it has %d bytes, and %d are there", size, len(first)+len(rest)-at)
		}
		if !t.buildIDs && hasBuildIDBit(b) {
			t.stray = append(t.stray, at)
		}
		record := b
		if len(b) >= size {
			record = b[:size]
		} else {
			t.scratch = append(append(t.scratch[:0], b...), rest[:size-len(b)]...)
			record = t.scratch
		}
		if time := t.record(record); time != 0 {
			if earliest == 0 {
				earliest = time
			}
			latest = time
		}
		at += size
	}
	if earliest != 0 && (t.first == 0 || earliest < t.first) {
		t.first = earliest
	}
	t.last = max(t.last, latest)
	return nil
}

// hasBuildIDBit reports whether a header is that of an MMAP2 record with PERF_RECORD_MISC_MMAP_BUILD_ID. Without Config.MmapBuildID,
// no event of a recording asks for build IDs, but the kernel (6.18) writes one record for the events of all sessions, and does not clear the bit after it wrote the record of a
// session that asked. Readers would treat the device and the inode as a build ID.
func hasBuildIDBit(record []byte) bool {
	ne := binary.NativeEndian
	return perfdata.RecordType(ne.Uint32(record)) == perfdata.RecordMmap2 && perfdata.Misc(ne.Uint16(record[4:]))&perfdata.MiscMmapBuildID != 0
}

// withoutBuildIDBits copies records, and clears the bit in those that are at the given offsets.
func withoutBuildIDBits(at []int, first, rest []byte) []byte {
	ne := binary.NativeEndian
	records := slices.Concat(first, rest)
	for _, at := range at {
		misc := records[at+4:]
		ne.PutUint16(misc, ne.Uint16(misc)&^uint16(perfdata.MiscMmapBuildID))
	}
	return records
}

// record tallies a record. It returns the time of a sample, and 0 for other records.
func (t *tally) record(b []byte) (time uint64) {
	ne := binary.NativeEndian
	if t.task != nil {
		if v := decodeTask(b); v != nil {
			t.tasks++
			t.task(v)
		}
	}
	switch perfdata.RecordType(ne.Uint32(b)) {
	case perfdata.RecordSample:
		t.samples++
		if t.timeAt > 0 && len(b) >= t.timeAt+8 {
			return ne.Uint64(b[t.timeAt:])
		}
	case perfdata.RecordLost:
		if len(b) >= 24 {
			t.lost += ne.Uint64(b[16:])
		}
	case perfdata.RecordLostSamples:
		if len(b) >= 16 {
			t.lost += ne.Uint64(b[8:])
		}
	case perfdata.RecordThrottle:
		t.throttled++
	case perfdata.RecordMmap:
		t.mapping(b, 40)
	case perfdata.RecordMmap2:
		t.mapping(b, 72)
	}
	return 0
}

// sample tallies a sample that came from no ring of an event.
func (t *tally) sample(time uint64) {
	t.samples++
	if t.first == 0 || time < t.first {
		t.first = time
	}
	t.last = max(t.last, time)
}

// mapping calls mapped for a file that was mapped executable. at is the offset of its name.
func (t *tally) mapping(b []byte, at int) {
	ne := binary.NativeEndian
	if len(b) <= at || perfdata.Misc(ne.Uint16(b[4:]))&perfdata.MiscMmapData != 0 {
		return
	}
	name, _, _ := bytes.Cut(b[at:], []byte{0})
	t.mapped(name, int32(ne.Uint32(b[8:])))
}

// drain writes what all rings have, except those that keep the newest records.
func (c *collector) drain() error {
	if err := c.modules.write(&c.writer, c.builds, c.release()); err != nil { // before the samples in the modules
		return err
	}
	wrote := false
	for _, r := range c.order {
		if r.overwritten {
			continue
		}
		first, rest, err := r.Unread()
		if err != nil {
			return err
		}
		n := len(first) + len(rest)
		if n == 0 {
			continue
		}
		first, rest = r.rename(c.events[0].attr.SampleType, first, rest)
		if r.chains != nil {
			first, rest = c.unwinder.merger.Merge(r.chains, first, rest), nil
		}
		if r.offCPU {
			err = c.offCPU.keep(&c.writer, first, rest)
		} else {
			err = c.keep(first, rest)
		}
		if err != nil {
			return err
		}
		r.Release(n)
		c.tally.drained += uint64(n)
		wrote = true
	}
	if c.fromRings != nil {
		more, err := c.keepRings()
		if err != nil {
			return err
		}
		wrote = wrote || more
	}
	if c.cfg.Sums != nil { // records of tasks come before the sums that are read with them
		return c.settled()
	}
	if wrote {
		if err := c.out.write(0, &perfdata.FinishedRound{}); err != nil {
			return err
		}
	}
	return c.settled()
}

// drainNewest writes the records of the rings that keep the newest records, and empties these rings.
func (c *collector) drainNewest() error {
	wrote := false
	for _, r := range c.order {
		if !r.overwritten {
			continue
		}
		if err := r.owner.PauseOutput(true); err != nil {
			return fmt.Errorf("read the newest records: %w", err)
		}
		var err error
		c.newest, err = r.Newest(c.newest[:0])
		if err != nil {
			return err
		}
		if err := r.owner.PauseOutput(false); err != nil {
			return fmt.Errorf("go on with the newest records: %w", err)
		}
		if len(c.newest) == 0 {
			continue
		}
		records := c.newest
		if r.chains != nil {
			records = c.unwinder.merger.Merge(r.chains, reversed(records), nil)
		}
		if err := c.keep(records, nil); err != nil {
			return err
		}
		wrote = true
	}
	if !wrote {
		return nil
	}
	return c.out.write(0, &perfdata.FinishedRound{})
}

// reversed returns records in the opposite order: a ring that keeps the newest records has these first. It leaves out what follows a record with a
// wrong size.
func reversed(records []byte) []byte {
	ne := binary.NativeEndian
	var each [][]byte
	for len(records) >= headerSize {
		size := int(ne.Uint16(records[6:]))
		if size < headerSize || size > len(records) {
			break
		}
		each = append(each, records[:size])
		records = records[size:]
	}
	slices.Reverse(each)
	return slices.Concat(each...)
}
