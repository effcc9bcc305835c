package replay

import (
	"github.com/bperf/bperf/internal/allowance"
	"github.com/bperf/bperf/internal/symbol/debuginfod"
	"github.com/bperf/bperf/internal/tracedata"
	"github.com/bperf/bperf/perfdata"
)

// Options configure a replay.
type Options struct {
	SymFS      string // directory that contains the files with symbols under their paths
	Kallsyms   string // file with the kernel's symbols; empty for this machine's kernel, if it is the recorded one
	Vmlinux    string // kernel image with symbols
	BuildIDs   string // directory of perf's buildid-cache; empty for ~/.debug
	NoInline   bool   // do not find inlined functions, which requires reading DWARF
	Mangled    bool   // leave names of symbols as compilers made them
	Lines      bool   // find source files and lines
	MaxSamples int    // the limit of profiles (profile.Profile.SetLimit); 0 for none
	NoStacks   bool   // make profiles without callchains
	NoNames    bool   // find only the DSOs of locations: no symbols, and no file is read for them
	Branches   bool   // make profiles of the branches in branch stacks: each one is a sample with the value 1
	Weights    bool   // make profiles with weights as values, not periods
	Ordered    bool   // let one handler process all records, in order
	Portion    int    // maximum number of records whose output is in memory; 0 for no limit
	MaxStack   int    // maximum number of frames in a callchain; 0 for 127 (kernel.perf_event_max_stack)

	// Trace appends what distinguishes a sample of a tracepoint, for profile.Details.Trace. Several goroutines call it. It may be nil.
	Trace func(event *perfdata.Event, raw, out []byte, function tracedata.Resolve) []byte

	Debuginfod *debuginfod.Client // fetches files that are not on this machine; nil for none

	Allowance *allowance.Allowance // limits time and memory for files of other users; nil for a new one

	// KernelSymbol returns symbols of the recorded kernel and its modules, in place of a file. Several goroutines may call it at any time.
	// It may be nil.
	KernelSymbol func(addr uint64) (Symbol, bool)

	Functions []string // keep only sums in these functions
	Sums      *Sums    // sums to add to the recording's samples; nil for none
	Others    bool     // hand out all records, not only samples
	Raw       bool     // hand out each record as it was read, before what Others and Filter make of it
	Filter    Filter

	// Records gets all records other than samples, in order, between calls of the handlers. It may be nil.
	Records func(*perfdata.Record)
}

// Filter selects samples. Empty fields do not restrict anything.
type Filter struct {
	Times      []TimeRange
	Comms      []string
	PIDs, TIDs []int32
	CPUs       []int
	Switches   Switches
}

// TimeRange is a range of times in ns of the recording's clock. Both ends are included.
type TimeRange struct{ Start, End uint64 }
