package stat

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// Printer writes the results of a session in one of the forms of the output: NewText, NewCSV, NewJSON.
type Printer interface {
	// Header begins the output of a run, or of the runs of which the mean is printed.
	Header(Outcome) error
	// Snapshot prints the rows of an interval, of the summary, or of the whole.
	Snapshot(Snapshot) error
	// End finishes with the times.
	End(Outcome) error
}

// OutputOptions are what the forms of the output need to know besides the results.
type OutputOptions struct {
	Aggregation   Aggregation
	Programs      bool // what is counted are BPF programs, which have runs
	Histogram     bool // text and JSON: how single runs of BPF programs are distributed
	Interval      bool // snapshots other than the summary begin with the time
	IntervalClear bool // text: clear the screen before each of them
	BigNum        bool // text: thousands separators
	Table         bool // text: a line for each run's time
	MetricOnly    bool // no counts, and metrics as columns
	HideZero      bool // leave out what was counted and is 0
	Defaults      bool // text: the events are bperf's choice, so that what the machine lacks needs no row
	NoCSVSummary  bool // CSV: do not mark the rows of the summary
	Separator     string
}

// What stands in place of a value.
const (
	notSupported = "<not supported>" // the machine cannot count the event
	notCounted   = "<not counted>"   // it can, but the event never ran
)

// absent is what stands in place of the row's value, or empty if it has one.
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

// printed is the value in the unit of the event.
func (r *Row) printed() float64 { return r.Value * r.Event.Scale }

// decimals is how many of them a value has: none as long as it is a number of whole things.
func (r *Row) decimals() int {
	if r.Event.Scale == math.Trunc(r.Event.Scale) {
		return 0
	}
	return 2
}

// share is the time that the event was on a counter, in percent of the time that it was enabled. It
// is 100 only if that is exact, and 0 only for an event that never ran.
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
	return o.HideZero && r.absent() == "" && r.Value == 0
}

// countsCounters reports whether a place is printed with the number of its counters.
func (a Aggregation) countsCounters() bool {
	switch a {
	case AggregateCore, AggregateDie, AggregateSocket, AggregateNode:
		return true
	default:
		return false
	}
}

// groupKey names the column of cgroups, or of BPF programs.
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

// quantiles are those of a BPF program's runs that are printed.
var quantiles = []struct {
	name string
	p    float64
}{{"median", 0.5}, {"p90", 0.9}, {"p99", 0.99}}

// runColumns names what is printed of single runs.
var runColumns = []string{"mean", "min", quantiles[0].name, quantiles[1].name, quantiles[2].name, "max"}

// runValues are the values of runColumns; empty where there is none.
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

// seconds prints a duration to the nanosecond.
func seconds(d time.Duration) string {
	return fmt.Sprintf("%d.%09d", d/time.Second, d%time.Second)
}

func fixed(v float64, decimals int) string { return strconv.FormatFloat(v, 'f', decimals, 64) }

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
