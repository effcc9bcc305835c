package cli

import (
	"fmt"

	"github.com/spf13/pflag"
)

// perfsCommands are the commands that only perf has.
var perfsCommands = []string{"archive", "bench", "buildid-cache", "c2c", "check", "daemon", "data", "ftrace", "inject", "iostat",
	"kallsyms", "kmem", "kvm", "kwork", "lock", "mem", "probe", "sched", "test", "timechart", "trace"}

// perfOption is an option of perf that does nothing in bperf: a hidden flag, and a row of docs/options.md.
type perfOption struct {
	name, letter string
	does         effect
	takes        argument
	why          string
}

// effect is what a command does with an option of perf.
type effect string

const (
	ignores effect = "ignores" // where that is harmless
	refuses effect = "refuses"
)

// argument says whether an option has a value.
type argument int

const (
	noValue argument = iota
	optionalValue
	needsValue
)

// Reasons that several options share.
const (
	noTraces    = "bperf does not decode hardware traces"
	noScripts   = "bperf runs no scripts and plugins: --json has every field"
	noGuests    = "bperf does not look for symbols of virtual machines' kernels"
	noScreen    = "bperf always writes text"
	noPrograms  = "bperf disassembles and finds source lines itself"
	noDebugging = "bperf has no messages for its own developers"
	noModules   = "bperf always looks for the symbols of modules"
	noBlocks    = "of the blocks between branches, bperf has only report --total-cycles"
	noDataTypes = "bperf does not look for types of data"
	noSnapshots = "bperf does not record hardware traces"
	ownThreads  = "bperf's collector needs no such setting"
)

var statPerfOptions = []perfOption{
	{name: "hybrid-merge", does: refuses, why: "bperf prints the count of each core PMU"},
	{name: "record-tpebs", does: refuses, why: "bperf does not count latencies by sampling"},
	{name: "tpebs-mode", does: refuses, takes: needsValue, why: "bperf does not count latencies by sampling"},
	{name: "smi-cost", does: refuses, why: "it changes a setting of the whole machine"},
	{name: "pmu-filter", does: refuses, takes: needsValue, why: "name the PMU in the event: PMU/EVENT/"},
	{name: "affinity", does: ignores, why: "bperf moves to another CPU only where that saves time"},
	{name: "iostat", does: refuses, takes: optionalValue, why: "it needs the events of Intel's I/O stacks by name"},
}

var recordPerfOptions = []perfOption{
	{name: "no-buildid-cache", letter: "N", does: ignores, why: "bperf copies no files into a cache"},
	{name: "latency", does: refuses, why: "bperf has no profiles by latency; --off-cpu records when threads are blocked"},
	{name: "sample-mem-info", does: refuses, why: "bperf does not decode the raw samples of AMD's IBS"},
	{name: "snapshot", letter: "S", does: refuses, takes: optionalValue, why: noSnapshots},
	{name: "aux-sample", does: refuses, takes: optionalValue, why: noSnapshots},
	{name: "proc-map-timeout", does: ignores, takes: needsValue, why: ownThreads},
	{name: "num-thread-synthesize", does: ignores, takes: needsValue, why: ownThreads},
	{name: "vmlinux", does: ignores, takes: needsValue, why: "bperf record needs no symbols"},
	{name: "aio", does: ignores, takes: optionalValue, why: ownThreads},
	{name: "affinity", does: ignores, takes: needsValue, why: ownThreads},
	{name: "mmap-flush", does: ignores, takes: needsValue, why: ownThreads},
	{name: "threads", does: ignores, takes: optionalValue, why: ownThreads},
	{name: "kcore", does: refuses, why: "bperf makes no copy of the kernel's code"},
	{name: "debuginfod", does: ignores, takes: optionalValue, why: "bperf record needs no symbols"},
	{name: "setup-filter", does: refuses, takes: needsValue, why: "bperf pins no filters: --filter needs root or CAP_BPF"},
	{name: "buildid-all", does: ignores, why: "bperf always records the build IDs of all files that are mapped"},
	{name: "timestamp-boundary", does: ignores, why: "bperf always records the times of the first and the last sample"},
}

// recordingPerfOptions are for all commands that read recordings.
var recordingPerfOptions = []perfOption{{name: "force", letter: "f", does: ignores, why: "bperf reads recordings of all users"}}

// samplesPerfOptions are for report, script and annotate.
var samplesPerfOptions = []perfOption{
	{name: "demangle-kernel", does: ignores, why: "bperf shows the kernel's names as the kernel lists them"},
	{name: "addr2line", does: ignores, takes: needsValue, why: noPrograms},
	{name: "itrace", does: refuses, takes: optionalValue, why: noTraces},
	{name: "verbose", letter: "v", does: ignores, why: noDebugging},
}

// screenPerfOptions are for report and annotate, for which perf has a screen and windows.
var screenPerfOptions = []perfOption{
	{name: "stdio-color", does: ignores, takes: needsValue, why: "bperf's text has no colours"},
	{name: "gtk", does: refuses, why: "bperf opens no windows"},
	{name: "modules", letter: "m", does: ignores, why: noModules},
	{name: "ignore-vmlinux", does: ignores, why: "bperf reads no kernel image unless --vmlinux names one"},
	{name: "objdump", does: ignores, takes: needsValue, why: noPrograms},
}

// callsPerfOptions are for report and script, which show callchains.
var callsPerfOptions = []perfOption{
	{name: "stitch-lbr", does: refuses, why: "bperf does not join the branches of several samples"},
	{name: "unwind-style", does: ignores, takes: needsValue, why: "bperf unwinds stacks itself"},
}

var reportPerfOptions = []perfOption{
	{name: "latency", does: refuses, why: "bperf has no profiles by latency"},
	{name: "parallelism", does: refuses, takes: needsValue, why: "bperf has no profiles by latency"},
	{name: "branch-history", does: refuses, why: noBlocks},
	{name: "show-ref-call-graph", does: refuses, why: "bperf shows each event's own callchains"},
	{name: "addr2line-style", does: ignores, takes: needsValue, why: noPrograms},
	{name: "disable-order", does: ignores, why: "order changes no sum"},
	{name: "percent-type", does: ignores, takes: needsValue, why: "bperf annotate has it"},
	{name: "pretty", does: ignores, takes: needsValue, why: "bperf prints tables"},
	{name: "samples", does: ignores, takes: needsValue, why: "bperf has no menu of single samples"},
	{name: "skip-empty", does: ignores, why: "bperf shows only events that have samples"},
}

var scriptPerfOptions = []perfOption{
	{name: "Latency", letter: "L", does: refuses, why: noScripts},
	{name: "list", letter: "l", does: refuses, why: noScripts},
	{name: "script", letter: "s", does: refuses, takes: needsValue, why: noScripts},
	{name: "gen-script", letter: "g", does: refuses, takes: needsValue, why: noScripts},
	{name: "dlfilter", does: refuses, takes: needsValue, why: noScripts},
	{name: "dlarg", does: refuses, takes: needsValue, why: noScripts},
	{name: "list-dlfilters", does: refuses, why: noScripts},
	{name: "debug-mode", letter: "d", does: ignores, why: "bperf always counts records that are out of order"},
	{name: "insn-trace", does: refuses, takes: optionalValue, why: noTraces},
	{name: "xed", does: refuses, takes: optionalValue, why: noTraces},
	{name: "call-trace", does: refuses, takes: optionalValue, why: noTraces},
	{name: "call-ret-trace", does: refuses, takes: optionalValue, why: noTraces},
	{name: "graph-function", does: refuses, takes: needsValue, why: noTraces},
	{name: "max-blocks", does: refuses, takes: needsValue, why: noBlocks},
	{name: "guestmount", does: refuses, takes: needsValue, why: noGuests},
	{name: "guestkallsyms", does: refuses, takes: needsValue, why: noGuests},
	{name: "guestmodules", does: refuses, takes: needsValue, why: noGuests},
	{name: "guestvmlinux", does: refuses, takes: needsValue, why: noGuests},
	{name: "guest-code", does: refuses, why: noGuests},
	{name: "all-cpus", letter: "a", does: refuses, why: noScripts},
	{name: "merge-callchains", does: ignores, why: "bperf always completes deferred callchains"},
	{name: "show-kernel-path", does: ignores, why: "bperf names the kernel as the kernel does"},
}

var annotatePerfOptions = []perfOption{
	{name: "stdio", does: ignores, why: noScreen},
	{name: "tui", does: ignores, why: noScreen},
	{name: "data-type", does: refuses, takes: optionalValue, why: noDataTypes},
	{name: "type-stat", does: refuses, why: noDataTypes},
	{name: "code-with-type", does: refuses, why: noDataTypes},
	{name: "group", does: ignores, why: "bperf always shows all events side by side"},
	{name: "insn-stat", does: refuses, why: noDataTypes},
	{name: "skip-empty", does: ignores, why: "bperf shows only events that have samples"},
	{name: "stdio2", does: ignores, why: noScreen},
}

var diffPerfOptions = []perfOption{
	{name: "modules", letter: "m", does: ignores, why: noModules},
	{name: "verbose", letter: "v", does: ignores, why: "--period shows the sums"},
	{name: "cycles-hist", does: refuses, why: noBlocks},
	{name: "stream", does: refuses, why: noBlocks},
}

var buildIDListPerfOptions = []perfOption{{name: "verbose", letter: "v", does: ignores, why: noDebugging}}

var listPerfOptions = []perfOption{
	{name: "debug", does: ignores, why: noDebugging},
	{name: "deprecated", does: ignores, why: "bperf hides no events"},
}

// addPerfOptions adds hidden flags for options of perf that do nothing in bperf.
func addPerfOptions(flags *pflag.FlagSet, lists ...[]perfOption) {
	for _, options := range lists {
		for i := range options {
			options[i].add(flags)
		}
	}
}

func (o *perfOption) add(flags *pflag.FlagSet) {
	f := flags.VarPF(o, o.name, o.letter, o.why)
	f.Hidden = true
	switch o.takes {
	case noValue:
		f.NoOptDefVal = "true"
	case optionalValue:
		f.NoOptDefVal = " "
	}
}

// refusedOption is the error for an option that bperf refuses.
type refusedOption struct{ *perfOption }

func (r refusedOption) Error() string { return fmt.Sprintf("only perf has --%s: %s", r.name, r.why) }

// Set implements pflag.Value. A refused switch may be turned off.
func (o *perfOption) Set(value string) error {
	if o.does != refuses || o.takes == noValue && value == "false" {
		return nil
	}
	return refusedOption{o}
}

func (o *perfOption) String() string { return "" }

func (o *perfOption) Type() string {
	if o.takes == noValue {
		return "bool"
	}
	return "string"
}
