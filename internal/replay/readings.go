package replay

import "github.com/bperf/bperf/perfdata"

// readings are the last readings of counters, by their ID.
type readings struct {
	last   map[uint64]uint64
	events map[uint64]*perfdata.Event
}

// split turns a sample with readings of counters (SampleRead) into one sample for each counter that has counted since the previous sample.
// The period is the increase. This way all events of a group are visible although only one is sampled.
func (r *readings) split(record *perfdata.Record, s *perfdata.Sample, events []*perfdata.Event, each func(*perfdata.Record, *perfdata.Sample)) {
	if r.last == nil {
		r.last = map[uint64]uint64{}
	}
	for _, v := range s.Read.Values {
		id := v.ID
		if s.Read.Format&perfdata.ReadID == 0 {
			id = s.ID
		}
		counted := v.Value - r.last[id]
		r.last[id] = v.Value
		if counted == 0 {
			continue
		}
		one, part := *record, *s
		one.Event, one.Value = r.event(id, events), &part
		part.ID, part.Period = id, counted
		part.Fields |= perfdata.SamplePeriod
		each(&one, &part)
	}
}

func (r *readings) event(id uint64, events []*perfdata.Event) *perfdata.Event {
	if e := r.events[id]; e != nil {
		return e
	}
	r.events = map[uint64]*perfdata.Event{}
	for _, e := range events {
		for _, id := range e.IDs {
			r.events[id] = e
		}
	}
	return r.events[id]
}
