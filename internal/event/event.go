// Package event parses event lists in perf's syntax and returns the attributes that perf_event_open needs.
// It reads the descriptions of a machine's events (sysfs, tracefs). It opens no events.
package event

import (
	"slices"

	"github.com/bperf/bperf/perfdata"
)

// Event is one event on one PMU. It has all that can be written about an event: its attributes, what sysfs says about the PMU, modifiers and
// terms.
type Event struct {
	Name string        // the name in reports: as the user wrote it, modifiers included, or the value of its name= term
	PMU  string        // sysfs name of the PMU: "cpu", "cpu_atom", "uncore_imc_0", "software", "tracepoint"; "tool" for tools
	Attr perfdata.Attr // type, config, exclude flags, precise_ip; the counter fills in the rest.
	// The terms period= and freq= set Attr.SamplePeriod and AttrFreq; code that counts without sampling clears them.

	Tool Tool // not ToolNone: bperf itself measures the value and Attr is unused

	CPUs   []int // CPUs on which the PMU counts, ascending; nil for all, empty where none of them is online
	Uncore bool  // the PMU counts for a package or node, not for tasks: it needs a CPU of CPUs

	Scale    float64 // a printed value is the count times Scale; 1 if the PMU has no scale for the event
	Unit     string  // of the printed value, may be empty
	Snapshot bool    // the value is a level, not a count: report the last reading, not a difference
	PerCore  bool    // term percore: where rows are CPUs, report the sum over each core
	PerPkg   bool    // all CPUs of a package report the same count

	BPF bool // modifier b: count through shared BPF counters

	// These fields matter only for sampling.
	ReadGroup   bool // modifier S: only the leader samples, and each sample has the readings of the whole group
	MostPrecise bool // modifier P: the highest precise_ip that this CPU supports
	Guests      bool // modifiers G and H, both: the host and its guests
	Sampling    Sampling

	ExcludeSelf bool // --exclude-perf: samples of the recording process itself are dropped

	Filter  string // tracepoint filter expression, or empty
	Program string // BPF program that runs at each sample, as package userprog reads it, or empty; only samples that it keeps are recorded

	Tracepoint string // SYSTEM:NAME of a tracepoint, independent of Name

	// Term is the index of the term that this event came from, among all terms of the parsed list.
	// Reports add up events of one term with the same Name (one uncore event on several boxes).
	Term int
}

// Sampling has the sampling options that the terms of an event set. A zero field means the option of the whole recording.
type Sampling struct {
	CallGraph string                    // call-graph: no, fp, bpf, dwarf or lbr
	StackSize uint32                    // stack-size: bytes of the user's stack, for dwarf
	MaxStack  uint16                    // max-stack: frames of a callchain
	Branches  perfdata.BranchSampleType // branch_type
	Inherit   *bool                     // inherit, no-inherit: children and new threads
	Time      *bool                     // time: of each sample
}

// Tool is an event that bperf measures itself; no PMU counts it.
type Tool int

// The tool events, as perf names them.
const (
	ToolNone     Tool = iota
	DurationTime      // duration_time: ns of wall clock while counting
	UserTime          // user_time: ns in user mode
	SystemTime        // system_time: ns in the kernel
)

// Group is a set of events that the kernel schedules together. A single event outside of
// braces is a group of one.
type Group struct {
	Events []*Event // the first is the leader
	Weak   bool     // modifier W: if the group cannot be scheduled, open its events one by one
}

// List has the groups of one or more -e options, in order.
type List []Group

// Events returns all events of the list in order.
func (l List) Events() []*Event {
	var all []*Event
	for _, g := range l {
		all = append(all, g.Events...)
	}
	return all
}

// Clone returns a copy of the list with copies of its groups and events.
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
