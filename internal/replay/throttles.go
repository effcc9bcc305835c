package replay

import "github.com/bperf/bperf/perfdata"

// throttles are the times when events are stopped because they overflowed more often in a tick than the kernel allows.
type throttles struct {
	since map[uint64]uint64 // start of the stop by stream ID, for events that are stopped
	count uint64
	total uint64 // total of the stops that are over, in ns
}

// apply processes a record.
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

// stopped returns how long an event has been stopped, in ns.
func (t *throttles) stopped(id, now uint64) uint64 {
	if since, is := t.since[id]; is && now > since {
		return now - since
	}
	return 0
}

// until returns how long events were stopped in total up to a time, in ns.
func (t *throttles) until(now uint64) uint64 {
	total := t.total
	for id := range t.since {
		total += t.stopped(id, now)
	}
	return total
}
