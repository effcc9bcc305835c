package event

import (
	"slices"
	"strings"

	"github.com/bperf/bperf/perfdata"
)

// generic is an event with the same number on all machines.
type generic struct {
	names  []string // lists show the first
	kind   Kind
	config uint64
	text   string
}

// generics has the hardware and software events of enum perf_hw_id and enum perf_sw_ids
// (include/uapi/linux/perf_event.h), and the tool events, whose config is the Tool.
var generics = []generic{
	{[]string{"cpu-cycles", "cycles"}, Hardware, 0, "Cycles of the CPU; what they are worth in time changes with its frequency"},
	{[]string{"instructions"}, Hardware, 1, "Instructions that were retired"},
	{[]string{"cache-references"}, Hardware, 2, "Accesses to a cache, mostly the last level"},
	{[]string{"cache-misses"}, Hardware, 3, "Accesses that the cache (mostly the last level) had no data for"},
	{[]string{"branch-instructions", "branches"}, Hardware, 4, "Branch instructions that were retired"},
	{[]string{"branch-misses"}, Hardware, 5, "Branch instructions that were predicted wrongly"},
	{[]string{"bus-cycles"}, Hardware, 6, "Cycles of the bus, whose frequency is constant"},
	{[]string{"stalled-cycles-frontend", "idle-cycles-frontend"}, Hardware, 7, "Cycles in which no instruction was issued for want of one"},
	{[]string{"stalled-cycles-backend", "idle-cycles-backend"}, Hardware, 8, "Cycles in which nothing was retired for want of data or units"},
	{[]string{"ref-cycles"}, Hardware, 9, "Cycles at a constant frequency"},

	{[]string{"cpu-clock"}, Software, 0, "Time on the CPU, by its high-resolution timer"},
	{[]string{"task-clock"}, Software, 1, "Time that the tasks ran"},
	{[]string{"page-faults", "faults"}, Software, 2, "Page faults, minor and major"},
	{[]string{"context-switches", "cs"}, Software, 3, "Switches from one task to another"},
	{[]string{"cpu-migrations", "migrations"}, Software, 4, "Moves of a task to another CPU"},
	{[]string{"minor-faults"}, Software, 5, "Page faults that needed no input"},
	{[]string{"major-faults"}, Software, 6, "Page faults that read from storage"},
	{[]string{"alignment-faults"}, Software, 7, "Unaligned accesses that the kernel had to repair; none on amd64"},
	{[]string{"emulation-faults"}, Software, 8, "Instructions that the kernel had to emulate"},
	{[]string{"dummy"}, Software, 9, "Counts nothing"},
	{[]string{"bpf-output"}, Software, 10, "Output of BPF programs through bpf_perf_event_output"},
	{[]string{"cgroup-switches"}, Software, 11, "Switches to a task of another cgroup (Linux 5.13)"},

	{[]string{"duration_time"}, ToolEvent, uint64(DurationTime), "Wall clock while counting"},
	{[]string{"user_time"}, ToolEvent, uint64(UserTime), "Time of the command in user mode"},
	{[]string{"system_time"}, ToolEvent, uint64(SystemTime), "Time of the command in the kernel"},
}

// ToolOf returns the tool event of a name, or ToolNone.
func ToolOf(name string) Tool {
	if g, ok := findGeneric(name); ok && g.kind == ToolEvent {
		return Tool(g.config)
	}
	return ToolNone
}

func findGeneric(name string) (generic, bool) {
	i := slices.IndexFunc(generics, func(g generic) bool { return slices.Contains(g.names, name) })
	if i < 0 {
		return generic{}, false
	}
	return generics[i], true
}

// event returns the event without name and modifiers, for a machine with at most one core PMU.
func (g generic) event() Event {
	e := Event{Scale: 1}
	switch g.kind {
	case ToolEvent:
		e.PMU, e.Tool, e.Unit = "tool", Tool(g.config), "ns"
	case Software:
		e.PMU, e.Attr.Type, e.Attr.Config = "software", perfdata.TypeSoftware, g.config
	default:
		e.PMU, e.Attr.Type, e.Attr.Config = "cpu", perfdata.TypeHardware, g.config
	}
	return e
}

// parseRaw parses rNNN, where NNN are hexadecimal digits with or without 0x.
func parseRaw(name string) (config uint64, ok bool) {
	digits, ok := strings.CutPrefix(name, "r")
	if !ok {
		return 0, false
	}
	digits = strings.TrimPrefix(digits, "0x")
	return parseNumber("0x" + digits)
}
