// Package count defines what every counting engine does; the engines are in the packages below it.
package count

import (
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/perfevent"
)

// None is the index of "not of any" in a Cell.
const None = -1

// Cell is where a counter counts, with its reading: for this event, on this CPU, for this thread or
// cgroup of the target. Its numbers are indexes; only CPU is the kernel's own.
type Cell struct {
	Event   int // into the events of the list that was opened
	CPU     int // CPU number, or None where it counts on whatever CPU the thread runs
	Thread  int // into the threads of the target, or None
	Cgroup  int // into the cgroups of the target, or None
	Program int // into the BPF programs that are counted inside of, or None

	perfevent.Reading
	Runs    *Runs    // of a BPF program, what was counted in each; nil for all else
	Dropped *Dropped // of a BPF program, in the cell with their number; nil for all else
}

// Counter counts events for a target. The readings only grow, from the first Enable to Close;
// differences are the caller's business.
type Counter interface {
	// Enable starts counting; Disable stops it and keeps the readings.
	Enable() error
	Disable() error
	// Read appends the current readings to dst, events in order. The same counter gives the same
	// cells in the same order each time.
	Read(dst []Cell) ([]Cell, error)
	// Err says why this machine cannot count an event (an index as in Cell.Event); such an event has
	// no cells. It is nil for events that count.
	Err(event int) error
	Close() error
}

// Total is the sum of readings with what is known of its quality: exact, scaled or absent.
type Total struct {
	Value   float64 // the event's own unit, scaled up to the time enabled where it did not run all of it
	Enabled uint64  // ns, summed over the readings
	Running uint64  // ns, summed over the readings
}

// Counted reports whether there is a value at all.
func (t Total) Counted() bool { return t.Running > 0 }

// Scaled reports whether the value is an estimate.
func (t Total) Scaled() bool { return t.Running > 0 && t.Running < t.Enabled }

// Sum adds readings up. It is the one place where values are scaled: each reading by its own times, as
// multiplexing differs from CPU to CPU, and readings that never ran by the average of those that
// did. With raw, values are added as they are.
func Sum(readings []perfevent.Reading, raw bool) Total {
	var t Total
	var covered uint64 // time enabled of the readings that ran
	for _, r := range readings {
		t.Enabled += r.Enabled
		t.Running += r.Running
		switch {
		case r.Running == 0:
			continue
		case raw || r.Running >= r.Enabled:
			t.Value += float64(r.Value)
		default:
			t.Value += float64(r.Value) * float64(r.Enabled) / float64(r.Running)
		}
		covered += r.Enabled
	}
	if !raw && covered > 0 && covered < t.Enabled {
		t.Value *= float64(t.Enabled) / float64(covered)
	}
	return t
}

// Options are what engines need to know besides the events and the target.
type Options struct {
	Inherit      bool // count the children of the target's threads too
	EnableOnExec bool // events start counting when the target's command is executed, without Enable
	AllUser      bool // leave the kernel out, for all events
	AllKernel    bool // leave user mode out, for all events
	PerThread    bool // the cells tell the target's threads apart
	LaterCPUs    bool // there are cells for CPUs that are offline, too: they count from when they come online (shared counters)
}

// Unsupported is the reason why a machine cannot count an event, in the user's terms.
type Unsupported struct {
	Event  *event.Event
	Err    error  // what the kernel answered
	Reason string // a sentence
	Remedy string // a sentence, or empty
}

func (u *Unsupported) Error() string {
	s := u.Event.Name + ": " + u.Reason
	if u.Remedy != "" {
		s += " " + u.Remedy
	}
	return s
}

func (u *Unsupported) Unwrap() error { return u.Err }
