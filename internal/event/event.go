// Package event turns the names people use for events into what perf_event_open needs. Parsing and
// opening are apart: this package reads the descriptions of a machine's events (sysfs, tracefs), and
// opens nothing.
package event

import (
	"slices"

	"github.com/bperf/bperf/perfdata"
)

// Event is one thing to count on one PMU.
type Event struct {
	Name string        // what reports print: as the user wrote it, modifiers included, or its name= term
	PMU  string        // sysfs name of the PMU: "cpu", "cpu_atom", "uncore_imc_0", "software", "tracepoint"; "tool" for tools
	Attr perfdata.Attr // type, config, exclude flags, precise_ip; the rest is the counter's to fill in.
	// The terms period= and freq= are in Attr.Sample: who counts and does not sample clears them.

	Tool Tool // not ToolNone: bperf itself provides the number and Attr is unused

	CPUs   []int // CPUs on which the PMU counts, ascending; nil for all, empty where none of them is online
	Uncore bool  // the PMU counts for a package or node, not for tasks: it needs a CPU of CPUs

	Scale    float64 // a printed value is the count times Scale; 1 where the PMU says nothing
	Unit     string  // of the printed value, may be empty
	Snapshot bool    // the value is a level, not a count: the last reading counts, not a difference
	PerPkg   bool    // CPUs of one package report the same count

	BPF bool // modifier b: count through shared BPF counters

	// What matters only for sampling.
	ReadGroup   bool // modifier S: a sample of the leader has the readings of its whole group, whose other events do not sample
	MostPrecise bool // modifier P: as precise as this CPU can
	Guests      bool // modifiers G and H, both: the host and its guests
	Sampling    Sampling

	Filter  string // tracepoint filter expression, or empty
	Program string // that runs at each sample, as package userprog reads it; or empty. Only samples that it keeps are recorded

	Tracepoint string // SYSTEM:NAME of a tracepoint, whatever Name is

	// Term is the position, among all terms of the parsed list, of the term this event came from.
	// Events of one term with the same Name (one uncore event on several boxes) are reported as one.
	Term int
}

// Sampling is what the terms of an event say of its samples. What is zero is as in the rest of the recording.
type Sampling struct {
	CallGraph string                    // call-graph: no, fp, dwarf or lbr
	StackSize uint32                    // stack-size: bytes of the user's stack, for dwarf
	MaxStack  uint16                    // max-stack: frames of a callchain
	Branches  perfdata.BranchSampleType // branch_type
	Inherit   *bool                     // inherit, no-inherit: children and new threads
	Time      *bool                     // time: of each sample
}

// Tool is an event that no PMU counts.
type Tool int

// The tool events, as perf names them.
const (
	ToolNone     Tool = iota
	DurationTime      // duration_time: ns of wall clock while counting
	UserTime          // user_time: ns in user mode
	SystemTime        // system_time: ns in the kernel
)

// Group is a set of events that count at the same time or not at all. A single event outside of
// braces is a group of one.
type Group struct {
	Events []*Event // the first leads
	Weak   bool     // modifier W: where the group cannot be scheduled, open its events one by one
}

// List is what one or more -e options ask for, in order.
type List []Group

// Events returns all events of the list in order.
func (l List) Events() []*Event {
	var all []*Event
	for _, g := range l {
		all = append(all, g.Events...)
	}
	return all
}

// Clone copies the list, so that one copy can be changed.
func (l List) Clone() List {
	c := slices.Clone(l)
	for i, g := range c {
		c[i].Events = make([]*Event, len(g.Events))
		for j, e := range g.Events {
			copied := *e
			c[i].Events[j] = &copied
		}
	}
	return c
}
