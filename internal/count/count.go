// Package count defines the interface of the counting engines, which are the packages below it.
//
// An engine's Counter counts the events of a list for a target. Each reading belongs to a cell: one event on one CPU, for one thread,
// cgroup or BPF program of the target. Sum adds up the readings of several cells.
package count

import (
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/perfevent"
)

// None in a field of a Cell means that the cell is not limited to one CPU, thread, cgroup or program.
const None = -1

// Cell is the reading of one event on one CPU, for one thread, cgroup or BPF program of the target. Its numbers are
// indexes, except for CPU.
type Cell struct {
	Event   int // index in the events of the opened list
	CPU     int // the kernel's CPU number, or None for a thread on all CPUs
	Thread  int // index in the threads of the target, or None
	Cgroup  int // index in the cgroups of the target, or None
	Program int // index in the BPF programs that the event is counted in, or None

	perfevent.Reading
	Runs    *Runs    // counts of single runs of a BPF program; nil for other targets
	Dropped *Dropped // dropped runs of a BPF program by reason, in the cell with their total; nil in all other cells
}

// Counter counts events for a target. The readings only grow, from the first Enable to Close; the caller computes
// differences.
type Counter interface {
	// Enable starts counting; Disable stops it and keeps the readings.
	Enable() error
	Disable() error
	// Read appends the current readings to dst, events in order. It returns the same cells in the same order each time.
	Read(dst []Cell) ([]Cell, error)
	// Err returns why this machine cannot count an event (an index as in Cell.Event), or nil if it can. An event with an
	// error has no cells.
	Err(event int) error
	Close() error
}

// Total is a sum of readings, which is exact, scaled or missing.
type Total struct {
	Value   float64 // in the event's own unit, scaled up to the time enabled if the event did not run all of it
	Enabled uint64  // ns, summed over the readings
	Running uint64  // ns, summed over the readings
}

// Counted reports whether there is a value.
func (t Total) Counted() bool { return t.Running > 0 }

// Scaled reports whether the value is an estimate.
func (t Total) Scaled() bool { return t.Running > 0 && t.Running < t.Enabled }

// Sum adds up readings. No other code scales values. Sum scales each reading by its own times, because multiplexing differs from CPU
// to CPU. It estimates readings that never ran from the average of the others. With raw, it adds the values unscaled.
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

// Options has the options of the engines that open perf events for a target.
type Options struct {
	Inherit      bool // also count the children of the target's threads
	EnableOnExec bool // start counting when the target's command is executed, without Enable
	AllUser      bool // exclude the kernel, for all events
	AllKernel    bool // exclude user mode, for all events
	LaterCPUs    bool // also make cells for offline CPUs, which count when these come online
}

// Unsupported is the error for an event that the machine cannot count.
type Unsupported struct {
	Event  *event.Event
	Err    error  // the kernel's error
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
