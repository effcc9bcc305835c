package count

import (
	"fmt"
	"strings"
)

// The reasons to drop a run of a BPF program, which then is in no event's count.
const (
	DroppedUnderWay    = iota // it was running when the session began to count
	DroppedInterrupted        // a probe was running on that CPU when it began or ended, or another run began during its own probe
	DroppedNested             // too many runs had begun on one CPU and not ended
	DroppedSwitched           // other tasks ran before it ended: it slept, or was preempted
	DroppedUnreadable         // an event could not be read
	droppedReasons
)

// DroppedNames has the names of the reasons in JSON and CSV.
var DroppedNames = [droppedReasons]string{"under-way", "interrupted", "nested", "switched", "unreadable"}

var droppedTexts = [droppedReasons]string{
	"were under way when counting began",
	"came while the kernel ran bperf's own program on that CPU",
	"were begun on a CPU on top of too many others",
	"slept or were preempted",
	"had an event that could not be read",
}

// Dropped is the number of dropped runs of a BPF program, by reason.
type Dropped [droppedReasons]uint64

// Add adds the runs in o.
func (d *Dropped) Add(o *Dropped) {
	for i, n := range o {
		d[i] += n
	}
}

// Sub subtracts an earlier reading. A run whose reason has changed since then counts for neither reason.
func (d *Dropped) Sub(earlier *Dropped) {
	for i, n := range earlier {
		d[i] -= min(d[i], n)
	}
}

// Total returns the number of dropped runs.
func (d *Dropped) Total() (sum uint64) {
	for _, n := range d {
		sum += n
	}
	return sum
}

// String lists the reasons with their numbers. It returns "" if no run was dropped.
func (d *Dropped) String() string {
	var parts []string
	for i, n := range d {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, droppedTexts[i]))
		}
	}
	return strings.Join(parts, ", ")
}
