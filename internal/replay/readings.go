package replay

import "github.com/bperf/bperf/perfdata"

// readings are the last readings of counters, by their ID.
type readings map[uint64]uint64

// split turns a sample with readings of counters (SampleRead) into one sample for each counter that has counted since the previous sample.
// The period is the increase. This way all events of a group are visible although only one is sampled. event returns the event of an ID.
func (r readings) split(record *perfdata.Record, s *perfdata.Sample, event func(id uint64) *perfdata.Event,
	each func(*perfdata.Record, *perfdata.Sample)) {
	for _, v := range s.Read.Values {
		id := v.ID
		if s.Read.Format&perfdata.ReadID == 0 {
			id = s.ID
		}
		counted := v.Value - r[id]
		r[id] = v.Value
		if counted == 0 {
			continue
		}
		one, part := *record, *s
		one.Event, one.Value = event(id), &part
		part.ID, part.Period = id, counted
		part.Fields |= perfdata.SamplePeriod
		each(&one, &part)
	}
}
