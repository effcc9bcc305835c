package perfdata

import (
	"bytes"
	"slices"
)

// table finds the event of a record. It is not changed once it is in use.
type table struct {
	events []*Event
	byID   map[uint64]*Event
	// Where every event has them at the same place, offsets of the time: in samples from the front, in trailers from the end; -1 where not.
	sampleTime, trailerTime int
	// Offsets of the ID; -1 where it is not at the same place for all events, or is missing.
	sampleID, trailerID int
	// Size of trailers; -1 where it is not the same for all events.
	trailer int
	// unordered: not all records have a time.
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

// sampleTimeOffset is where the time of a sample stands, behind the header; -1 if it has none.
func sampleTimeOffset(a *Attr) int {
	if !a.SampleType.Has(SampleTime) {
		return -1
	}
	return trailerSize(a.SampleType&(SampleIdentifier|SampleTID)) + 8*int(a.SampleType&SampleIP)
}

// trailerTimeOffset is where the time of a trailer stands, before the end of the record; -1 if it has none.
func trailerTimeOffset(a *Attr) int {
	if !a.SampleType.Has(SampleTime) || !a.Has(AttrSampleIDAll) {
		return -1
	}
	return trailerSize(a.SampleType &^ SampleTID)
}

// sampleIDOffset is where the ID of a sample stands, behind the header; -1 if it has none.
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

// trailerIDOffset is where the ID of a trailer stands, before the end of the record; -1 if it has none.
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

// trailerSizeOf is that of the records of an event.
func trailerSizeOf(a *Attr) int {
	if !a.Has(AttrSampleIDAll) {
		return 0
	}
	return trailerSize(a.SampleType)
}

// trim cuts off what is behind the trailer of a record. The kernel tells all events of a BPF program with one header, whose size grows by a trailer for each
// of them (perf_event_ksymbol_output and perf_event_bpf_output in kernel/events/core.c): in all but the first one's ring, something that was there
// before follows the trailer, and would be taken for it.
func (t *table) trim(typ RecordType, body []byte) []byte {
	const fixed = 16 // bytes, with the fields of both
	if typ != RecordKSymbol && typ != RecordBPFEvent || len(body) < fixed || t.trailer < 0 {
		return body
	}
	end := fixed + t.trailer
	if typ == RecordKSymbol {
		end += roundUp(bytes.IndexByte(body[fixed:], 0)+1, 8) // the name
	}
	return body[:min(end, len(body))]
}

// event of a record of the kernel; nil if it has an ID that is not known.
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
	// perf makes up records with an ID of 0, and files of one event may come without IDs.
	if id == 0 && typ != RecordSample {
		return t.events[0]
	}
	return nil
}

// time of a record of the kernel; 0 if there is none.
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
