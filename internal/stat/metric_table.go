package stat

import (
	"slices"
	"strings"

	"github.com/bperf/bperf/internal/count/program"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/perfdata"
)

// MetricInfo describes a metric.
type MetricInfo struct {
	Name        string   // perf's name
	Alias       string   // the name that older versions of perf print, if they print one
	Unit        string   // what perf 6.1 prints behind the value; empty if it does not have the metric
	Events      []string // the events that it needs
	Description string
}

// ownMetric is a metric of bperf and the function that computes it.
type ownMetric struct {
	MetricInfo
	event string // the event beside which it is printed
	kind  MetricKind
	in73  unit73
	value func(*inputs) float64
}

// metrics lists all metrics. Those of one event are printed in this order.
var metrics = []ownMetric{
	{MetricInfo{"CPUs_utilized", "", "CPUs utilized", []string{taskClock},
		"CPU time per elapsed time: how many CPUs were busy on average"},
		taskClock, Quantity, unit73{1, "CPUs"}, (*inputs).utilized},
	{MetricInfo{"CPUs_utilized", "", "CPUs utilized", []string{taskClock}, ""},
		cpuClock, Quantity, unit73{1, "CPUs"}, (*inputs).utilized},
	{MetricInfo{"cs_per_second", "", "/sec", []string{"context-switches", taskClock},
		"context switches per second of CPU time"},
		"context-switches", Rate, unit73{1, "cs/sec"}, (*inputs).rate},
	{MetricInfo{"migrations_per_second", "", "/sec", []string{"cpu-migrations", taskClock},
		"moves of a task to another CPU per second of CPU time"},
		"cpu-migrations", Rate, unit73{1, "migrations/sec"}, (*inputs).rate},
	{MetricInfo{"page_faults_per_second", "", "/sec", []string{"page-faults", taskClock},
		"page faults per second of CPU time"},
		"page-faults", Rate, unit73{1, "faults/sec"}, (*inputs).rate},
	{MetricInfo{"cycles_frequency", "GHz", "GHz", []string{"cycles", taskClock},
		"cycles per ns of CPU time: the clock frequency while it was used"},
		"cycles", Quantity, unit73{1, "GHz"}, (*inputs).frequency},
	{MetricInfo{"frontend_cycles_idle", "frontend cycles idle", "frontend cycles idle", []string{"stalled-cycles-frontend", "cycles"},
		"share of the cycles in which the frontend delivered no instruction"},
		"stalled-cycles-frontend", Percent, unit73{factor: 0.01}, percentOf("cycles")},
	{MetricInfo{"backend_cycles_idle", "backend cycles idle", "backend cycles idle", []string{"stalled-cycles-backend", "cycles"},
		"share of the cycles in which the backend could take no instruction"},
		"stalled-cycles-backend", Percent, unit73{factor: 0.01}, percentOf("cycles")},
	{MetricInfo{"insn_per_cycle", "IPC", "insn per cycle", []string{"instructions", "cycles"},
		"instructions per cycle"},
		"instructions", Ratio, unit73{1, "instructions"}, func(in *inputs) float64 { return in.own() / in.count("cycles") }},
	{MetricInfo{"stalled_cycles_per_instruction", "stalled cycles per insn", "stalled cycles per insn",
		[]string{"instructions", "stalled-cycles-frontend", "stalled-cycles-backend"},
		"stalled cycles of the frontend or the backend, whichever has more, per instruction"},
		"instructions", Ratio, unit73{factor: 1}, func(in *inputs) float64 {
			return in.larger("stalled-cycles-frontend", "stalled-cycles-backend") / in.own()
		}},
	{MetricInfo{"branch_frequency", "", "/sec", []string{"branches", taskClock},
		"branches per second of CPU time"},
		"branches", Rate, unit73{1e-6, "M/sec"}, (*inputs).rate},
	{MetricInfo{"bpf_runs_per_second", "", "/sec", []string{program.Runs}, ""},
		program.Runs, Rate, unit73{1, "runs/sec"}, (*inputs).often},
	{MetricInfo{"bpf_cpu_utilization", "", "CPUs utilized", []string{program.RunTime}, ""},
		program.RunTime, Quantity, unit73{100, "%"}, (*inputs).utilized},
	{MetricInfo{"bpf_drop_rate", "", "of all runs", []string{program.Dropped, program.Runs}, ""},
		program.Dropped, Percent, unit73{1, "%"}, percentOf(program.Runs)},
	missRate("branch_miss_rate", "branch-misses", "branches", "of all branches", "branches that were mispredicted"),
	missRate("cache_miss_rate", "cache-misses", "cache-references", "of all cache refs", "cache references that missed"),
	missRate("l1d_miss_rate", "L1-dcache-load-misses", "L1-dcache-loads", "of all L1-dcache accesses", "loads that missed the L1 data cache"),
	missRate("l1_prefetch_miss_rate", "L1-dcache-prefetch-misses", "L1-dcache-prefetches", "", "prefetches that missed the L1 data cache"),
	missRate("l1i_miss_rate", "L1-icache-load-misses", "L1-icache-loads", "of all L1-icache accesses", "fetches that missed the L1 instruction cache"),
	missRate("llc_miss_rate", "LLC-load-misses", "LLC-loads", "of all LL-cache accesses", "loads that missed the last-level cache"),
	missRate("dtlb_miss_rate", "dTLB-load-misses", "dTLB-loads", "of all dTLB cache accesses", "loads that missed the data TLB"),
	missRate("itlb_miss_rate", "iTLB-load-misses", "iTLB-loads", "of all iTLB cache accesses", "fetches that missed the instruction TLB"),
}

func missRate(name, misses, of, unit, description string) ownMetric {
	return ownMetric{MetricInfo{name, "", unit, []string{misses, of}, "share of " + description}, misses, Percent, unit73{1, "%"}, percentOf(of)}
}

// Metrics returns the metrics that have a name: those of -M. Every other event that is counted beside a clock also has a rate per second.
func Metrics() []MetricInfo {
	var list []MetricInfo
	for _, m := range metrics {
		if m.Description != "" {
			m.Events = slices.Clone(m.Events)
			list = append(list, m.MetricInfo)
		}
	}
	return list
}

// sets returns the sets of events that should be counted at the same time. A software event always runs, so it is a separate set.
func (m *ownMetric) sets() [][]string {
	var pmu []string
	var sets [][]string
	for _, e := range m.Events {
		if slices.Contains(software[:], e) {
			sets = append(sets, []string{e})
		} else {
			pmu = append(pmu, e)
		}
	}
	if len(pmu) > 0 {
		sets = append([][]string{pmu}, sets...)
	}
	return sets
}

const (
	cpuClock  = "cpu-clock"
	taskClock = "task-clock"
)

func isClock(name string) bool { return name == cpuClock || name == taskClock }

// Names by number: enum perf_hw_id, enum perf_sw_ids, enum perf_hw_cache_id of include/uapi/linux/perf_event.h.
var (
	hardware = [...]string{"cycles", "instructions", "cache-references", "cache-misses", "branches", "branch-misses",
		"bus-cycles", "stalled-cycles-frontend", "stalled-cycles-backend", "ref-cycles"}
	software = [...]string{cpuClock, taskClock, "page-faults", "context-switches", "cpu-migrations"}
	caches   = [...]string{"L1-dcache", "L1-icache", "LLC", "dTLB", "iTLB"}
)

// aliases are other names for hardware events: those of x86 and arm64 PMUs in sysfs.
var aliases = map[string]string{
	"cpu-cycles":          "cycles",
	"branch-instructions": "branches",

	"cpu_cycles":          "cycles",
	"inst_retired":        "instructions",
	"br_retired":          "branches",
	"br_mis_pred_retired": "branch-misses",
	"stall_frontend":      "stalled-cycles-frontend",
	"stall_backend":       "stalled-cycles-backend",
}

// canonical returns the event's name in the table of metrics, or "" if no metric uses the event.
func canonical(e *event.Event) string {
	switch {
	case e.Tool != event.ToolNone:
		return ""
	case e.PMU == program.PMU:
		return e.Name
	}
	id := e.Attr.Config & (1<<perfdata.PMUTypeShift - 1)
	switch e.Attr.Type {
	case perfdata.TypeHardware:
		return at(hardware[:], id)
	case perfdata.TypeSoftware:
		return at(software[:], id)
	case perfdata.TypeHWCache:
		return canonicalCache(id)
	default:
		return canonicalPMU(e)
	}
}

// canonicalCache returns the name of a cache's loads, load misses, prefetches or prefetch misses, or "". The config is
// cache | operation << 8 | result << 16.
func canonicalCache(id uint64) string {
	cache := at(caches[:], id&0xff)
	switch {
	case cache == "":
		return ""
	case id>>8 == 0:
		return cache + "-loads"
	case id>>8 == 1<<8:
		return cache + "-load-misses"
	case id>>8 == 2:
		return cache + "-prefetches"
	case id>>8 == 1<<8|2:
		return cache + "-prefetch-misses"
	default:
		return ""
	}
}

// canonicalPMU returns the canonical name of an event given as PMU/name/, or "". It uses the name in sysfs.
func canonicalPMU(e *event.Event) string {
	rest, ok := strings.CutPrefix(e.Name, e.PMU+"/")
	if !ok {
		return ""
	}
	name, _, ok := strings.Cut(rest, "/")
	if !ok {
		return ""
	}
	if alias, ok := aliases[name]; ok {
		return alias
	}
	if slices.Contains(hardware[:], name) {
		return name
	}
	return ""
}

func at(names []string, i uint64) string {
	if i >= uint64(len(names)) {
		return ""
	}
	return names[i]
}
