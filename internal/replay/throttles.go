package replay

import "github.com/bperf/bperf/perfdata"

// throttles are the times that events are stopped, as they have overflowed more often since a tick than the kernel allows.
type throttles struct {
	since map[uint64]uint64 // of those that are, by stream ID
	count uint64
	total uint64 // that is over, in ns
}

// apply looks at a record.
func (t *throttles) apply(v perfdata.Value) {
	switch v := v.(type) {
	case *perfdata.Throttle:
		if t.since == nil {
			t.since = make(map[uint64]uint64)
		}
		t.since[v.EventStreamID] = v.EventTime
		t.count++
	case *perfdata.Unthrottle:
		t.total += t.stopped(v.EventStreamID, v.EventTime)
		delete(t.since, v.EventStreamID)
	}
}

// stopped is for how long an event is, in ns.
func (t *throttles) stopped(id, now uint64) uint64 {
	if since, is := t.since[id]; is && now > since {
		return now - since
	}
	return 0
}

// until is for how long events were stopped in all up to a time, in ns.
func (t *throttles) until(now uint64) uint64 {
	total := t.total
	for id := range t.since {
		total += t.stopped(id, now)
	}
	return total
}
