package script

import "github.com/bperf/bperf/perfdata"

// Options select what is printed, and how.
type Options struct {
	Fields    *Selection
	JSON      bool
	NoChains  bool     // print only the instruction pointer
	Nanos     bool     // print nine decimals of a second instead of six
	Relative  bool     // print times since the first sample
	Delta     bool     // print times since the previous sample
	Symbols   []string // print only samples in one of these functions, or at one of Addresses
	Addresses []uint64 // of instruction pointers
	Range     uint64   // number of bytes from each of Addresses on; 0 for one
	DSOs      []string // print only samples in one of these files
	StopAt    []string // print no callers of these functions
	Type      string   // type of the output of BPF programs: a structure in the BTF of the recording; empty for the value type of their map
	FullPaths bool     // print whole paths of source files
	Records   Records
	PerEvent  []*EventOutput              // where samples are printed, by Event.Index; nil to print all to one writer
	Dump      bool                        // print all records with their bytes, as perf's -D
	Unsorted  bool                        // print the records in the order of the file
	Input     string                      // with Dump: name of the recording
	AttrText  func(*perfdata.Attr) string // with Dump: describes the attributes of an event
}

// Records selects the records other than samples that are printed.
type Records struct {
	Mmap, Task, BPF, Switch, Namespace, Cgroup, Lost, Round, TextPoke bool
}
