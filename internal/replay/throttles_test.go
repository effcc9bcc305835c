package replay

import (
	"testing"

	"github.com/bperf/bperf/perfdata"
)

// TestThrottles has two events that are stopped, one of them until the end, and one that is resumed without having been stopped.
func TestThrottles(t *testing.T) {
	var all throttles
	for _, v := range []perfdata.Value{
		&perfdata.Throttle{EventStreamID: 1, EventTime: 100},
		&perfdata.Throttle{EventStreamID: 2, EventTime: 150},
		&perfdata.Unthrottle{EventStreamID: 1, EventTime: 130},
		&perfdata.Unthrottle{EventStreamID: 3, EventTime: 170},
		&perfdata.Throttle{EventStreamID: 1, EventTime: 200},
		&perfdata.Unthrottle{EventStreamID: 1, EventTime: 205},
		&perfdata.Comm{},
	} {
		all.apply(v)
	}
	if all.count != 3 || all.until(250) != 30+5+100 || all.until(0) != 35 {
		t.Errorf("%+v: stopped for %d, and for %d up to the start", all, all.until(250), all.until(0))
	}
}
