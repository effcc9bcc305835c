package replay

import "github.com/bperf/bperf/internal/allowance"

// Options of a replay.
type Options struct {
	SymFS      string // a directory in which the files with symbols are, below their paths
	Kallsyms   string // a file to take the kernel's symbols from; empty for this machine's, if it is the one that was recorded
	Vmlinux    string // the kernel's image with symbols
	BuildIDs   string // a directory of perf's buildid-cache; empty for ~/.debug
	NoInline   bool   // do not look for inlined functions, which takes reading DWARF
	Lines      bool   // look for source files and lines
	NoDemangle bool   // names as the linker has them
	NoStacks   bool   // make profiles of where samples were taken alone, without their callchains
	MaxStack   int    // frames of a callchain; 0 for 127 (kernel.perf_event_max_stack)

	Allowance *allowance.Allowance // of time for files of other users; nil for a new one

	// KernelSymbol finds symbols of the kernel that was recorded and of its modules, in place of a file. It may be called at any time and by several
	// goroutines; nil for none.
	KernelSymbol func(addr uint64) (Symbol, bool)

	Functions []string // only sums in these
	Sums      *Sums    // that come besides the recording's samples; nil for none
	Others    bool     // hand out all records, not only samples
	Filter    Filter
}

// Filter says which samples are wanted. What is empty does not restrict anything.
type Filter struct {
	Times      []TimeRange
	Comms      []string
	PIDs, TIDs []int32
	CPUs       []int
}

// TimeRange is from Start to End, both included, in ns of the recording's clock.
type TimeRange struct{ Start, End uint64 }
