package count

import (
	"fmt"
	"strings"
)

// Why a run of a BPF program is in no event's count.
const (
	DroppedUnderWay    = iota // when the session began to count
	DroppedInterrupted        // a probe was at work on that CPU when it began or ended, or it came while its own was
	DroppedNested             // more of them had begun on a CPU at a time than there is room for
	DroppedSwitched           // other tasks ran before it ended: it slept, or was preempted
	DroppedUnreadable         // an event could not be read
	droppedReasons
)

// DroppedNames are those of the reasons in JSON and CSV.
var DroppedNames = [droppedReasons]string{"under-way", "interrupted", "nested", "switched", "unreadable"}

var droppedTexts = [droppedReasons]string{
	"were under way when counting began",
	"came while the kernel ran bperf's own program on that CPU",
	"were begun on a CPU on top of too many others",
	"slept or were preempted",
	"had an event that could not be read",
}

// Dropped is how many runs of a BPF program are in no event's count, by reason.
type Dropped [droppedReasons]uint64

// Add adds others.
func (d *Dropped) Add(o *Dropped) {
	for i, n := range o {
		d[i] += n
	}
}

// Sub leaves those since an earlier reading. What was put down to one reason and is put down to another now is of neither.
func (d *Dropped) Sub(earlier *Dropped) {
	for i, n := range earlier {
		d[i] -= min(d[i], n)
	}
}

// Total is the number of all.
func (d *Dropped) Total() (sum uint64) {
	for _, n := range d {
		sum += n
	}
	return sum
}

// String lists what there is; it is empty if there is nothing.
func (d *Dropped) String() string {
	var parts []string
	for i, n := range d {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, droppedTexts[i]))
		}
	}
	return strings.Join(parts, ", ")
}
