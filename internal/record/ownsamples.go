package record

import (
	"encoding/binary"
	"os"
	"slices"

	"github.com/bperf/bperf/perfdata"
)

// ownSamples drops the samples of this process from events with event.Event.ExcludeSelf. The kernel's filters of tracepoints cannot do that: they
// know threads, and the Go runtime starts threads at any time.
type ownSamples struct {
	pid         uint32
	events      map[uint64]bool // by ID; nil if samples have no ID, because there is only one event
	idAt, pidAt int             // offsets in a sample
}

// newOwnSamples returns nil if no event needs it. The events must be open.
func newOwnSamples(events []*opened) *ownSamples {
	o := &ownSamples{pid: uint32(os.Getpid()), pidAt: headerSize + 8} // after the IP
	sampleType := events[0].attr.SampleType
	if sampleType&perfdata.SampleIdentifier != 0 {
		o.pidAt += 8
	}
	if sampleType&(perfdata.SampleIdentifier|perfdata.SampleEventID) != 0 {
		o.events = make(map[uint64]bool)
		o.idAt, _ = idOffsets(sampleType)
	}
	some := false
	for _, e := range events {
		if !e.event.ExcludeSelf {
			continue
		}
		some = true
		for _, id := range e.ids {
			if o.events != nil {
				o.events[id] = true
			}
		}
	}
	if !some {
		return nil
	}
	return o
}

// drop returns the records, which come in two parts, without the samples. o may be nil.
func (o *ownSamples) drop(first, rest []byte) (_, _ []byte) {
	if o == nil {
		return first, rest
	}
	all := slices.Concat(first, rest)
	kept := all[:0]
	for len(all) >= headerSize {
		size := int(binary.NativeEndian.Uint16(all[6:]))
		if size < headerSize || size > len(all) {
			break // tally says what is wrong
		}
		if !o.is(all[:size]) {
			kept = append(kept, all[:size]...)
		}
		all = all[size:]
	}
	return append(kept, all...), nil
}

// is reports whether a record is such a sample.
func (o *ownSamples) is(record []byte) bool {
	ne := binary.NativeEndian
	if perfdata.RecordType(ne.Uint32(record)) != perfdata.RecordSample || len(record) < max(o.pidAt+4, o.idAt+8) {
		return false
	}
	return ne.Uint32(record[o.pidAt:]) == o.pid && (o.events == nil || o.events[ne.Uint64(record[o.idAt:])])
}
