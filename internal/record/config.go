// Package record samples events for the system, CPUs, processes, threads, cgroups or a command, and writes what comes to perf.data.
package record

import (
	"cmp"
	"io"
	"os"
	"slices"
	"time"

	"github.com/bperf/bperf/internal/allowance"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/session"
	"github.com/bperf/bperf/internal/userprog"
	"github.com/bperf/bperf/perfdata"
)

// Config is what is recorded, and how.
type Config struct {
	session.Spec

	Events       event.List
	EventCgroups []string           // with -G: for each event the cgroup's name, or empty for none; nil without
	Programs     *userprog.Programs // of event.Event.Program; nil if there are none. Run loads them, and the caller closes them
	OutputNames  map[string]string  // of the events of maps through which they write, by map; those that are not in it have the map's name

	PerThread bool // a ring for each thread, not for each CPU, and no children

	Frequency  uint64 // samples in a second, for events that do not say otherwise; 0 with Period
	Period     uint64 // events between two samples
	Overrides  bool   // the user chose Frequency or Period, so that they are for all events
	MaxRate    bool   // as many samples as the kernel allows, in place of Frequency
	StrictRate bool   // a Frequency that the kernel does not allow is an error, and not lowered

	Callchain Callchain
	StackSize uint32                    // bytes of the user's stack, with CallchainDWARF
	Branches  perfdata.BranchSampleType // 0 for none

	Addresses   bool  // -d: of data
	PhysAddrs   bool  // physical addresses of data
	Weight      bool  // cost of the sampled access
	Raw         bool  // what tracepoints and PMUs have to add
	SampleCPU   bool  // the CPU, also where the target is no CPU
	Time        bool  // the time, also where it is of no use
	PeriodSet   *bool // -P, --no-period; nil for where it varies
	NoSamples   bool  // only records of tasks and memory
	TaskCounts  bool  // -s: what each thread has counted, when it ends
	Namespaces  bool
	Cgroups     bool
	Switches    bool
	NoBPF       bool   // nothing about BPF programs
	ClockID     *int32 // nil for the clock of perf
	AllUser     bool
	AllKernel   bool
	NoIdle      bool // leave out the CPUs' idle tasks, where the event can
	Inherit     bool // children and new threads, too
	NoBuffering bool // wake for each sample

	RingPages   int  // of each ring, a power of two; 0 for what is usual
	Overwrite   bool // keep what is newest in the rings, and write it at the end
	Compression int  // level of zstd; 0 for none
	NoBuildIDs  bool

	Sums   *Sums          // in place of samples; nil for samples
	OffCPU *time.Duration // how long threads are blocked: samples for what takes as long, sums for the rest; nil for nothing of it

	// Allowance bounds the time that files of other users take; nil for a new one. Whoever sends Signals also calls its End, as the session reads them
	// only while it records.
	Allowance *allowance.Allowance

	Output      string    // file; "-" for standard output, as a pipe
	Stream      io.Writer // in place of Output, as a pipe; nil for that
	Switch      Switch
	CommandLine []string // with which the session was asked for
	Version     string   // of this program

	// Verbose gets what the user may want to know; or nil. Several goroutines call it and Notify, also at the same time.
	Verbose func(string)
}

// Callchain says how callchains are recorded.
type Callchain int

// How callchains are recorded.
const (
	CallchainNone  Callchain = iota
	CallchainFP              // by frame pointers, in the kernel
	CallchainDWARF           // the user's stack and registers, to be unwound later
	CallchainLBR             // by the CPU's record of branches
)

// Switch says when another file is begun; the zero value is never.
type Switch struct {
	Requests <-chan os.Signal // at each; nil for none
	Size     int64            // in bytes; 0 for any
	Every    time.Duration    // 0 for never
	MaxFiles int              // that are kept; 0 for all
}

func (s Switch) on() bool { return s.Requests != nil || s.Size > 0 || s.Every > 0 }

// SamplesCPUs reports whether with Sums the events are those of CPUs, though processes with all that they start are the target. An event of a thread begins a
// period of its own, and has no sample of a thread that ends within it. All events have to be clocks, or cycles at a frequency: of these, who takes
// more of a CPU has more samples.
func (c *Config) SamplesCPUs() bool {
	events, t := c.Events.Events(), c.Target
	if len(events) == 0 || !c.CommandIsTarget() && len(t.PIDs) == 0 || len(t.TIDs) > 0 || t.User != "" || c.PerThread {
		return false
	}
	return !slices.ContainsFunc(events, func(e *event.Event) bool {
		frequency := e.Attr.Has(perfdata.AttrFreq)
		if e.Attr.SamplePeriod == 0 || c.Overrides {
			frequency = c.Frequency > 0
		}
		return !c.of(e).Inherit || !isClock(&e.Attr) && !(isCycles(&e.Attr) && frequency)
	})
}

// samplesCPUs reports whether that is done.
func (p *plan) samplesCPUs() bool { return p.cfg.Sums != nil && p.cfg.SamplesCPUs() }

// perCPU reports whether CPUs are recorded, whoever runs there.
func (c *Config) perCPU() bool { return c.Target.System || c.Target.CPUs != nil }

// pipe reports whether what is written cannot be changed later.
func (c *Config) pipe() bool { return c.Output == "-" || c.Stream != nil }

// addresses reports whether samples have the address of what was accessed: to unwind stacks, memory that is not executable has to be known, too.
func (c *Config) addresses() bool { return c.Addresses || c.Callchain == CallchainDWARF }

// data reports whether that is so for any event.
func (c *Config) data() bool {
	return c.addresses() || slices.ContainsFunc(c.Events.Events(), func(e *event.Event) bool { return c.of(e).addresses() })
}

// of is the configuration for an event whose terms say something of its samples.
func (c *Config) of(e *event.Event) *Config {
	own, terms := *c, e.Sampling
	if terms.Inherit != nil {
		own.Inherit = *terms.Inherit
	}
	switch terms.CallGraph {
	case "no":
		own.Callchain = CallchainNone
	case "fp":
		own.Callchain = CallchainFP
	case "lbr":
		own.Callchain = CallchainLBR
	case "dwarf":
		own.Callchain, own.StackSize = CallchainDWARF, cmp.Or(own.StackSize, DefaultStack)
	default:
		if terms.MaxStack > 0 && own.Callchain == CallchainNone {
			own.Callchain = CallchainFP
		}
	}
	own.StackSize = cmp.Or(terms.StackSize, own.StackSize)
	own.Branches = cmp.Or(terms.Branches, own.Branches)
	return &own
}

// DefaultStack is how many bytes of the user's stack are recorded with CallchainDWARF where nothing else is said, as in perf.
const DefaultStack = 8192

// Result is how the session ended.
type Result struct {
	session.Result

	Samples    uint64
	Lost       uint64 // records that found no room
	Filtered   uint64 // samples that filters of events that are no tracepoints dropped
	Missed     uint64 // samples for which the kernel did not run a filter; exact with a period of 1, else an estimate
	Throttled  uint64 // times that an event was stopped as it came too often
	Wakeups    uint64
	Drained    uint64 // bytes, from rings
	Bytes      int64  // written, without features
	Original   int64  // the same before compression
	Files      int    // that were begun
	LastOutput string
}
