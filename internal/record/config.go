// Package record samples events for the system, CPUs, processes, threads, cgroups or a command, and writes the records to perf.data.
//
// An event is opened in scopes: on a CPU, for a thread, or for a thread on a CPU. The kernel writes the records of all events of a scope to one
// ring buffer. The collector drains the rings to the output. The tracker is the event that has the records of tasks and memory; it may be a
// dummy event, which has no samples. Sums replace samples that BPF programs count in the kernel.
package record

import (
	"cmp"
	"io"
	"os"
	"slices"
	"time"

	"github.com/bperf/bperf/internal/allowance"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/record/chains"
	"github.com/bperf/bperf/internal/session"
	"github.com/bperf/bperf/internal/userprog"
	"github.com/bperf/bperf/internal/userstack"
	"github.com/bperf/bperf/perfdata"
)

// Config configures a recording. As in the command line, each property of samples, records and buffers is a choice of its own.
type Config struct {
	session.Spec

	Events       event.List
	EventCgroups []string           // -G: for each event the cgroup's name, or empty for none; nil without -G
	Programs     *userprog.Programs // of event.Event.Program; nil if there are none. Run loads them, and the caller closes them
	OutputNames  map[string]string  // names of the events of maps through which Programs write, by map; default: the map's name

	PerThread bool // a ring per thread instead of per CPU, and no children

	Frequency  uint64 // samples per second, for events without their own; 0 with Period
	Period     uint64 // events between two samples
	Overrides  bool   // the user chose Frequency or Period, so they apply to all events
	MaxRate    bool   // use the highest frequency that the kernel allows, instead of Frequency
	StrictRate bool   // fail if the kernel does not allow Frequency, instead of lowering it

	Callchain Callchain
	NoUser    bool                      // callchains without user mode
	NoKernel  bool                      // callchains without the kernel
	StackSize uint32                    // bytes of the user's stack, with CallchainDWARF
	Branches  perfdata.BranchSampleType // 0 for none

	InterruptRegs uint64 // mask of the registers at the sample, of AllRegisters
	UserRegs      uint64 // mask of the registers that user mode had last, of AllRegisters

	Addresses   bool  // -d: addresses of data
	PhysAddrs   bool  // physical addresses of data
	Weight      bool  // cost of the sampled access
	Transaction bool  // what aborted a hardware transaction
	DataPages   bool  // sizes of the pages of data addresses; since Linux 5.11
	CodePages   bool  // sizes of the pages of instruction pointers; since Linux 5.11
	Raw         bool  // raw data of tracepoints and PMUs
	SampleCPU   bool  // the CPU, even if the target is no CPU
	Time        bool  // the time, even if nothing needs it
	Identifier  bool  // the ID of the event, even if there is only one event
	PeriodSet   *bool // -P, --no-period; nil: samples have the period if it varies
	NoSamples   bool  // only records of tasks and memory
	TaskCounts  bool  // -s: the counts of each thread, when it ends
	RunTimes    bool  // with groups that are read with each sample: the times enabled and running
	DataMaps    bool  // mappings of data
	Namespaces  bool
	Cgroups     bool
	Switches    bool
	NoBPF       bool   // no records of BPF programs
	ClockID     *int32 // nil for perf's clock
	AllUser     bool
	AllKernel   bool
	NoIdle      bool // exclude the CPUs' idle tasks, if the event supports it
	Inherit     bool // children and new threads, too
	NoBuffering bool // wake the reader for each sample

	RingPages   int   // of each ring, a power of two; 0 for the default
	Overwrite   bool  // keep the newest records in the rings, and write them at the end
	Compression int   // zstd level; 0 for none
	MaxSize     int64 // bytes: the recording ends when the file is as large; 0 for no limit
	NoBuildIDs  bool
	MmapBuildID bool // records of mappings have build IDs; since Linux 5.12
	Realtime    int  // real-time priority of the thread that reads the rings, 1 to 99; 0 for none

	Existing Existing // which records of what exists already are left out
	Tail     bool     // the records of existing processes are at the end of each file, not at its beginning

	Sums   *Sums          // replaces samples; nil for samples
	OffCPU *time.Duration // off-CPU time: a sample for each time of at least this length, sums for shorter ones; nil for none

	// Allowance bounds the time that bperf spends on files of other users; nil for a new one. The sender of Signals must also call its End, because
	// the session reads them only while it records.
	Allowance *allowance.Allowance

	Output      string    // file name; "-" for standard output, as a pipe
	TimedName   bool      // the time is appended to the name of the file, as it always is with Switch
	Stream      io.Writer // replaces Output, as a pipe; nil for Output
	Switch      Switch
	Name        string   // bperf's name in messages such as perf's: "bperf record"
	CommandLine []string // command line for the header
	Version     string   // bperf's version for the header

	// Verbose gets messages for -v; or nil. Several goroutines call it and Notify, even concurrently.
	Verbose func(string)
}

// Callchain is the way of recording callchains.
type Callchain int

// The ways of recording callchains.
const (
	CallchainNone  Callchain = iota
	CallchainFP              // the kernel unwinds by frame pointers
	CallchainDWARF           // user stack and registers, for later unwinding
	CallchainLBR             // from the CPU's last branch records
	CallchainBPF             // a BPF program unwinds the user's part by tables; since Linux 5.17
)

// Existing says which records of what exists already a recording leaves out. Records of the kernel, its modules and BPF programs always exist.
type Existing struct {
	NoTasks   bool // no processes and threads, and no mappings
	NoMaps    bool // no mappings of processes
	NoCgroups bool
}

// Switch selects when to begin another output file; the zero value is never.
type Switch struct {
	Requests <-chan os.Signal // at each signal; nil for none
	Size     int64            // at this size in bytes; 0 for any size
	Every    time.Duration    // after this time; 0 for never
	Events   event.List       // at each sample of one of these, which are not recorded
	MaxFiles int              // number of files to keep; 0 for all
}

func (s Switch) on() bool { return s.Requests != nil || s.Size > 0 || s.Every > 0 || len(s.Events) > 0 }

// SamplesCPUs reports whether, with Sums, bperf opens the events on CPUs although the target is processes and everything that they start. An
// event of a thread starts with a new period, so a thread that ends within its first period gets no sample. All events must be clocks, or cycles
// at a frequency, because their samples are in proportion to the time on the CPU.
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

// samplesCPUs reports whether this recording has Sums and SamplesCPUs.
func (p *plan) samplesCPUs() bool { return p.cfg.Sums != nil && p.cfg.SamplesCPUs() }

// perCPU reports whether the target is CPUs, with everything that runs there.
func (c *Config) perCPU() bool { return c.Target.System || c.Target.CPUs != nil }

// pipe reports whether the output is a pipe, which cannot be changed after writing.
func (c *Config) pipe() bool { return c.Output == "-" || c.Stream != nil }

// addresses reports whether samples or their user stacks have addresses of data, so that mappings that are not executable are needed too.
func (c *Config) addresses() bool { return c.Addresses || c.Callchain == CallchainDWARF && !c.NoUser }

// data reports whether addresses is true for any event.
func (c *Config) data() bool {
	return c.addresses() || slices.ContainsFunc(c.Events.Events(), func(e *event.Event) bool { return c.of(e).addresses() })
}

// of returns the configuration with the terms of an event applied.
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
	case "bpf":
		own.Callchain = CallchainBPF
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

// DefaultStack is the default of Config.StackSize with CallchainDWARF, in bytes, as in perf.
const DefaultStack = 8192

// Result is the outcome of a recording.
type Result struct {
	session.Result

	Samples    uint64
	Lost       uint64 // records that found no room in a ring
	Filtered   uint64 // samples dropped by filters of events other than tracepoints
	Missed     uint64 // samples for which the kernel did not run a filter; exact with a period of 1, else an estimate
	Throttled  uint64 // times that the kernel stopped an event because it came too often
	Wakeups    uint64
	Drained    uint64 // bytes read from rings
	Bytes      int64  // bytes written, without features
	Original   int64  // Bytes before compression
	Files      int    // number of output files
	LastOutput string

	Chains  chains.Counts   // of the samples with CallchainBPF
	LeftOut userstack.Stats // what the unwind tables had no room for, with CallchainBPF
}
