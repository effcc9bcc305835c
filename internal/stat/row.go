package stat

import (
	"time"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/metric"
)

// Aggregation selects how readings are combined into rows.
type Aggregation int

// The aggregations of perf stat.
const (
	AggregateGlobal Aggregation = iota
	AggregateNone               // -A: a row per CPU
	AggregateCore
	AggregateCluster
	AggregateCache
	AggregateDie
	AggregateSocket
	AggregateNode
	AggregateThread
)

// needsTopology reports whether rows are parts of the machine larger than a CPU.
func (a Aggregation) needsTopology() bool {
	switch a {
	case AggregateCore, AggregateCluster, AggregateCache, AggregateDie, AggregateSocket, AggregateNode:
		return true
	}
	return false
}

// Row is one line of the result: one event in one part of the target.
type Row struct {
	Event   *event.Event
	Name    string // the event's name; with its PMU where events of one name have separate rows
	Place   Place
	Cgroup  string // name, or empty
	Program string // name of the BPF program, or empty

	count.Total
	Err      error   // why the machine cannot count the event; then Total is zero
	Variance float64 // relative standard error of the mean over the runs, in percent; set with more than one run

	Runs   *count.Runs // the counted runs of a BPF program; nil for all other rows
	PerRun float64     // mean of Value per run, before Event.Scale; set with Runs

	Dropped *count.Dropped // runs of a BPF program that were not counted, by reason; only in the row with their number

	Metrics     []Metric
	OnlyMetrics bool // the row is a group of metrics, called Name, without the count of an event: see NewDefaultMetrics
}

// group returns the name of the row's cgroup or BPF program, or "".
func (r *Row) group() string { return r.Cgroup + r.Program }

// Place is the part of the target that a row covers. It is zero for the whole target.
type Place struct {
	ID       string // CPU, core, die, socket or node: "CPU0", "S0-D0-C0", "S0-D0", "S0", "N0"; or "comm-tid"
	Counters int    // number of counters (CPUs) that the row adds up
	Core     bool   // the place is a core, among rows of CPUs: see percore.go
}

// Metric is a number computed from one or more rows.
type Metric struct {
	Name  string  // the name that -M accepts: "insn_per_cycle"
	Value float64 // never NaN or infinite: metrics that cannot be computed are left out
	Unit  string  // what perf 6.1 prints behind the value: "insn per cycle", "GHz", "/sec"; empty if it does not have the metric

	Kind   MetricKind
	Scaled bool // the value is an estimate, because a count that it was computed from is one

	Judgement metric.Judgement // of its threshold, which only metrics of the CPU's vendor have

	in73       unit73
	ofPrograms bool // only BPF programs have it
	ofVendor   bool // -M named it, and all versions of perf print it alike
}

// MetricKind selects the format of a metric's value in perf 6.1.
type MetricKind int

// The kinds of metrics.
const (
	Quantity MetricKind = iota // in Unit: GHz, CPUs
	Ratio                      // one count per other
	Percent
	Rate   // per second
	PerRun // a BPF program's mean, in Unit
)

// Snapshot holds the rows of an interval, of the summary, or of the whole run.
type Snapshot struct {
	Time    time.Duration // since the start of the session; printed with intervals
	Summary bool          // the sum over all intervals
	Rows    []Row
}

// Outcome describes a session that has ended.
type Outcome struct {
	Subject  string // "'system wide'", "'sleep 1'", "process id '1'"
	Runs     int    // 1 without -r
	Elapsed  []time.Duration
	User     time.Duration // of the command; set with HasTimes
	System   time.Duration
	HasTimes bool
}
