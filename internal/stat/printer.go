package stat

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// Printer writes the results of a session as text, CSV or JSON: see NewText, NewCSV and NewJSON.
type Printer interface {
	// Header begins the output of a run, or of all runs that a mean is printed for.
	Header(Outcome) error
	// Snapshot prints the rows of an interval, of the summary, or of the whole run.
	Snapshot(Snapshot) error
	// End prints the times.
	End(Outcome) error
}

// OutputOptions are the options of all printers.
type OutputOptions struct {
	Aggregation   Aggregation
	Compat        Compat   // the version of perf whose metrics are printed
	Metrics       []string // with Perf73: the names of the metrics to print; nil for all
	Programs      bool     // the rows are BPF programs, which have runs
	Histogram     bool     // text and JSON: the distribution of single runs of BPF programs
	Interval      bool     // snapshots other than the summary begin with the time
	IntervalClear bool     // text: clear the screen before each interval
	BigNum        bool     // text: thousands separators
	Color         bool     // text: mark the metrics that their threshold judges, green or red
	Table         bool     // text: one line per run with its time
	MetricOnly    bool     // metrics as columns, without counts
	HideZero      bool     // leave out rows that were counted and are 0
	Defaults      bool     // text: bperf chose the events, so the ones that the machine lacks need no row
	NoCSVSummary  bool     // CSV: do not mark the rows of the summary
	Separator     string
}

// These texts stand in place of a value.
const (
	notSupported = "<not supported>" // the machine cannot count the event
	notCounted   = "<not counted>"   // the machine can, but the event never ran
)

// absent returns the text that stands in place of the row's value, or "" if the row has one.
func (r *Row) absent() string {
	switch {
	case r.Err != nil:
		return notSupported
	case !r.Counted() || !finite(r.printed()):
		return notCounted
	default:
		return ""
	}
}

// printed returns the value in the unit of the event.
func (r *Row) printed() float64 { return r.Value * r.Event.Scale }

// unit returns the unit of the row's value.
func (r *Row) unit() string {
	if r.OnlyMetrics {
		return ""
	}
	return r.Event.Unit
}

// decimals returns the number of decimals of the row's value: 0 if its scale is a whole number.
func (r *Row) decimals() int {
	if r.Event.Scale == math.Trunc(r.Event.Scale) {
		return 0
	}
	return 2
}

// share returns the time that the event was on a counter, in percent of the time that it was enabled. It returns 100 only if that is exact,
// and 0 only for an event that never ran.
func (r *Row) share() float64 {
	switch {
	case !r.Counted():
		return 0
	case !r.Scaled():
		return 100
	default:
		return min(max(100*float64(r.Running)/float64(r.Enabled), 0.01), 99.99)
	}
}

// hidden reports whether the row is left out.
func (o *OutputOptions) hidden(r *Row) bool {
	return o.HideZero && !r.OnlyMetrics && r.absent() == "" && r.Value == 0
}

// countsCounters reports whether a place is printed with its number of counters.
func (a Aggregation) countsCounters() bool {
	switch a {
	case AggregateCore, AggregateCluster, AggregateCache, AggregateDie, AggregateSocket, AggregateNode:
		return true
	default:
		return false
	}
}

// groupKey returns the name of the column of cgroups or BPF programs.
func (o *OutputOptions) groupKey() string {
	if o.Programs {
		return "program"
	}
	return "cgroup"
}

// hasGroups reports whether the rows need a column for cgroups or BPF programs.
func hasGroups(rows []Row) bool {
	for i := range rows {
		if rows[i].group() != "" {
			return true
		}
	}
	return false
}

// quantiles are the quantiles that are printed of a BPF program's runs.
var quantiles = []struct {
	name string
	p    float64
}{{"median", 0.5}, {"p90", 0.9}, {"p99", 0.99}}

// runColumns names the columns with statistics of single runs.
var runColumns = []string{"mean", "min", quantiles[0].name, quantiles[1].name, quantiles[2].name, "max"}

// runValues returns the values of runColumns, with "" for an unknown one.
func (r *Row) runValues() []string {
	values := make([]string, len(runColumns))
	if r.Runs == nil || r.absent() != "" || r.Runs.Counted == 0 {
		return values
	}
	scale, _ := r.runUnit()
	number := func(v float64) string { return strconv.FormatFloat(v*scale, 'f', -1, 64) }
	values[0] = fixed(r.PerRun*scale, 3)
	for i, q := range quantiles {
		if v, ok := r.Runs.Quantile(q.p); ok {
			values[2+i] = number(math.Round(v))
		}
	}
	if r.Runs.Ranged {
		values[1], values[len(values)-1] = number(float64(r.Runs.Min)), number(float64(r.Runs.Max))
	}
	return values
}

// seconds formats a duration in seconds with nine decimals.
func seconds(d time.Duration) string {
	return fmt.Sprintf("%d.%09d", d/time.Second, d%time.Second)
}

func fixed(v float64, decimals int) string { return strconv.FormatFloat(v, 'f', decimals, 64) }

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
