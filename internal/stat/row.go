package stat

import (
	"time"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/event"
)

// Aggregation is how readings are put together in rows.
type Aggregation int

// The aggregations of perf stat.
const (
	AggregateGlobal Aggregation = iota
	AggregateNone               // -A: a row per CPU
	AggregateCore
	AggregateDie
	AggregateSocket
	AggregateNode
	AggregateThread
)

// needsTopology reports whether rows are parts of the machine larger than a CPU.
func (a Aggregation) needsTopology() bool {
	switch a {
	case AggregateCore, AggregateDie, AggregateSocket, AggregateNode:
		return true
	}
	return false
}

// Row is one line of the result: an event for a part of the target.
type Row struct {
	Event   *event.Event
	Name    string // the event's name, with its PMU where events of one name are kept apart
	Place   Place
	Cgroup  string // name, or empty
	Program string // name of the BPF program, or empty

	count.Total
	Err      error   // why the machine cannot count the event; then Total is empty
	Variance float64 // relative standard error of the mean over Runs in percent; with Runs > 1

	Runs   *count.Runs // of a BPF program; nil for all else
	PerRun float64     // the mean of them, in the event's own unit; with Runs

	Dropped *count.Dropped // why runs of a BPF program are in no count, in the row with their number; nil for all else

	Metrics []Metric
}

// group is what the row is of besides its place: a cgroup or a BPF program; or empty.
func (r *Row) group() string { return r.Cgroup + r.Program }

// Place is the part of the target that a row is about; empty for the whole of it.
type Place struct {
	ID       string // CPU, core, die, socket or node: "CPU0", "S0-D0-C0", "S0-D0", "S0", "N0"; or "comm-tid"
	Counters int    // number of counters (CPUs) that the row adds up
}

// Metric is a number computed of several rows.
type Metric struct {
	Name  string  // as -M takes it: "insn_per_cycle"
	Value float64 // never NaN or infinite: what cannot be computed is not there
	Unit  string  // "insn per cycle", "GHz", "/sec": what is printed behind the value

	Kind   MetricKind
	Scaled bool // one of the counts it was computed from is an estimate, and so it is one too
}

// MetricKind is how a metric's value is to be read.
type MetricKind int

// The kinds of metrics.
const (
	Quantity MetricKind = iota // of the unit: GHz, CPUs
	Ratio                      // one count per other
	Percent
	Rate // per second
)

// Snapshot is a set of rows of one moment: an interval, the summary, or the whole run.
type Snapshot struct {
	Time    time.Duration // since the start of the session; printed with intervals
	Summary bool          // the sum over all intervals
	Rows    []Row
}

// Outcome is how a session went, known when it ends.
type Outcome struct {
	Subject  string // "'system wide'", "'sleep 1'", "process id '1'"
	Runs     int    // 1 without -r
	Elapsed  []time.Duration
	User     time.Duration // of the command, in its last run; HasTimes
	System   time.Duration
	HasTimes bool
}
