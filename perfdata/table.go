package perfdata

import (
	"bytes"
	"slices"
)

// table finds the event and the time of a record. It is immutable once in use. All offsets are -1 if the field is missing or if not all
// events have it at the same offset.
type table struct {
	events []*Event
	byID   map[uint64]*Event
	// Offsets of the time: in samples from the start, in trailers from the end.
	sampleTime, trailerTime int
	// Offsets of the ID, measured in the same way.
	sampleID, trailerID int
	// Size of trailers; -1 if not all events have the same.
	trailer int
	// unordered: no event has AttrSampleIDAll, so records other than samples have no time.
	unordered bool
}

func newTable(events []*Event) *table {
	t := &table{events: events, byID: map[uint64]*Event{}}
	for _, e := range events {
		for _, id := range e.IDs {
			if _, taken := t.byID[id]; !taken {
				t.byID[id] = e
			}
		}
	}
	if len(events) == 0 {
		t.sampleTime, t.trailerTime, t.sampleID, t.trailerID, t.trailer = -1, -1, -1, -1, -1
		return t
	}
	same := func(offset func(*Attr) int) int {
		at := offset(&events[0].Attr)
		for _, e := range events[1:] {
			if offset(&e.Attr) != at {
				return -1
			}
		}
		return at
	}
	t.sampleTime, t.trailerTime = same(sampleTimeOffset), same(trailerTimeOffset)
	t.sampleID, t.trailerID = same(sampleIDOffset), same(trailerIDOffset)
	t.trailer = same(trailerSizeOf)
	t.unordered = !slices.ContainsFunc(events, func(e *Event) bool { return e.Attr.Has(AttrSampleIDAll) })
	return t
}

// sampleTimeOffset returns the offset of the time in a sample, from the end of the header; -1 if samples have no time.
func sampleTimeOffset(a *Attr) int {
	if !a.SampleType.Has(SampleTime) {
		return -1
	}
	return trailerSize(a.SampleType&(SampleIdentifier|SampleTID)) + 8*int(a.SampleType&SampleIP)
}

// trailerTimeOffset returns the offset of the time in a trailer, counted back from the end of the record; -1 if trailers have no time.
func trailerTimeOffset(a *Attr) int {
	if !a.SampleType.Has(SampleTime) || !a.Has(AttrSampleIDAll) {
		return -1
	}
	return trailerSize(a.SampleType &^ SampleTID)
}

// sampleIDOffset returns the offset of the ID in a sample, from the end of the header; -1 if samples have no ID.
func sampleIDOffset(a *Attr) int {
	t := a.SampleType
	switch {
	case t.Has(SampleIdentifier):
		return 0
	case t.Has(SampleEventID):
		at := trailerSize(t&(SampleTID|SampleTime)) + 8*int(t&SampleIP)
		if t.Has(SampleAddr) {
			at += 8
		}
		return at
	}
	return -1
}

// trailerIDOffset returns the offset of the ID in a trailer, counted back from the end of the record; -1 if trailers have no ID.
func trailerIDOffset(a *Attr) int {
	t := a.SampleType
	switch {
	case !a.Has(AttrSampleIDAll):
		return -1
	case t.Has(SampleIdentifier):
		return 8
	case t.Has(SampleEventID):
		return trailerSize(t & (SampleEventID | SampleStreamID | SampleCPU))
	}
	return -1
}

// trailerSizeOf returns the size of the trailers of an event's records.
func trailerSizeOf(a *Attr) int {
	if !a.Has(AttrSampleIDAll) {
		return 0
	}
	return trailerSize(a.SampleType)
}

// trim cuts off the bytes after the trailer of a KSYMBOL or BPF_EVENT record. The kernel outputs such a record to all events with one header,
// and adds a trailer to the header's size for each event (perf_event_ksymbol_output and perf_event_bpf_output in kernel/events/core.c). So in
// every ring but the first, stale bytes of the ring follow the trailer and would be decoded in its place.
func (t *table) trim(typ RecordType, body []byte) []byte {
	const fixed = 16 // bytes of fixed fields in both types of records
	if typ != RecordKSymbol && typ != RecordBPFEvent || len(body) < fixed || t.trailer < 0 {
		return body
	}
	end := fixed + t.trailer
	if typ == RecordKSymbol {
		end += roundUp(bytes.IndexByte(body[fixed:], 0)+1, 8) // the name
	}
	return body[:min(end, len(body))]
}

// event returns the event of a kernel record, or nil if the record has an unknown ID.
func (t *table) event(typ RecordType, body []byte, big bool) *Event {
	if len(t.events) == 0 {
		return nil
	}
	at := t.sampleID
	if typ != RecordSample && t.trailerID >= 0 {
		at = len(body) - t.trailerID
	} else if typ != RecordSample {
		at = -1
	}
	if len(t.events) == 1 || at < 0 || at+8 > len(body) {
		return t.events[0]
	}
	c := cursor{b: body[at : at+8], big: big}
	id := c.u64()
	if e := t.byID[id]; e != nil {
		return e
	}
	// perf synthesizes records with an ID of 0, and a file with one event may have no IDs.
	if id == 0 && typ != RecordSample {
		return t.events[0]
	}
	return nil
}

// time returns the time of a kernel record, or 0 if it has none.
func (t *table) time(typ RecordType, body []byte, big bool) uint64 {
	body = t.trim(typ, body)
	at := t.timeOffset(typ, body, big)
	if at < 0 || at+8 > len(body) {
		return 0
	}
	c := cursor{b: body[at : at+8], big: big}
	return c.u64()
}

func (t *table) timeOffset(typ RecordType, body []byte, big bool) int {
	if typ == RecordSample {
		if t.sampleTime >= 0 {
			return t.sampleTime
		}
		if e := t.event(typ, body, big); e != nil {
			return sampleTimeOffset(&e.Attr)
		}
		return -1
	}
	from := t.trailerTime
	if from < 0 {
		e := t.event(typ, body, big)
		if e == nil {
			return -1
		}
		from = trailerTimeOffset(&e.Attr)
	}
	if from < 0 {
		return -1
	}
	return len(body) - from
}
