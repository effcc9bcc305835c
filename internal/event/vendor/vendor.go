// Package vendor has the events and metrics that the vendors of CPUs publish, by CPU model: names and encodings, no descriptions. The facts
// are those of the kernel's tools/perf/pmu-events; docs/dependencies.md says where they come from.
package vendor

//go:generate go run ../../../test/upstream/vendorevents

import (
	"cmp"
	"iter"
	"slices"
	"sort"
	"strings"
)

// Event is an event of a CPU's vendor.
type Event struct {
	Name string // in lower case, as perf prints it
	// PMU is the PMU's name in sysfs without the number of the box: "cpu_atom", "uncore_cha", "hisi_sccl,ddrc" (both parts are followed by
	// numbers). It is empty for the core PMU of a machine with one kind of core, whatever its name.
	PMU        string
	Terms      string  // as in a file of the PMU's events directory: "event=0xd1,umask=0x1"
	Period     uint64  // the vendor's default for sampling; 0 if there is none
	Scale      float64 // a printed value is the count times Scale; 1 if there is no scale
	Unit       string  // of the printed value, may be empty
	PerPkg     bool    // all CPUs of a package report the same count
	Deprecated bool    // another event replaces it
	Errata     string  // the vendor's numbers of errata that affect the event
	Compat     string  // a regular expression for the identifier file of the PMU; empty for all
	Text       *Text   // nil without a description
}

// Text describes an event or a metric. The tables in the program have none: descriptions are from the user's files.
type Text struct {
	Brief string // without a full stop at the end
	Long  string // also without one; empty if it says no more than Brief
}

// Metric is a metric of a CPU's vendor. The fields other than Groups are as in the kernel's JSON files.
type Metric struct {
	Name            string
	Expr            string   // in perf's expression language
	Groups          []string // MetricGroup: the groups that the metric is in
	NoGroup         []string // MetricgroupNoGroup: the groups of metrics for which the events are not scheduled as a group
	ScaleUnit       string   // a factor and a unit: "100%", "1GHz"
	Threshold       string   // MetricThreshold: an expression that is true where the value deserves attention
	Constraint      string   // MetricConstraint: when the events are not scheduled as a group, such as NO_GROUP_EVENTS_NMI
	PMU             string   // as in Event
	DefaultGroup    string   // DefaultMetricgroupName
	Compat          string   // as in Event
	AggregationMode string   // PerChip or PerCore; empty otherwise
	ShowEvents      bool     // DefaultShowEvents: stat prints the events of the metric even where the user did not name them
	PerPkg          bool
	Text            *Text // nil without a description
}

// Table has the events and metrics of a CPU model. The methods of a nil Table find nothing. It does not change after New.
type Table struct {
	model   string
	events  []Event  // by PMU, then by name
	metrics []Metric // by name, then by PMU
}

// New returns a table of these events and metrics. It sorts them.
func New(events []Event, metrics []Metric) *Table {
	t := &Table{events: events, metrics: metrics}
	t.sort()
	return t
}

func (t *Table) sort() {
	byPMU := func(a, b Event) int { return cmp.Or(strings.Compare(a.PMU, b.PMU), strings.Compare(a.Name, b.Name)) }
	if !slices.IsSortedFunc(t.events, byPMU) { // they are, in the program, if they come from one table
		slices.SortStableFunc(t.events, byPMU)
	}
	slices.SortStableFunc(t.metrics, func(a, b Metric) int {
		return cmp.Or(strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)), strings.Compare(a.PMU, b.PMU))
	})
}

// Model returns the name of the CPU model, such as "skylakex". It is empty if the table has only what does not depend on the model.
func (t *Table) Model() string {
	if t == nil {
		return ""
	}
	return t.model
}

// Event returns the event of a PMU, which is named as in Event.PMU. Case does not matter.
func (t *Table) Event(pmu, name string) (Event, bool) {
	if t == nil {
		return Event{}, false
	}
	name = strings.ToLower(name)
	i, ok := slices.BinarySearchFunc(t.events, name, func(e Event, name string) int {
		return cmp.Or(strings.Compare(e.PMU, pmu), strings.Compare(e.Name, name))
	})
	if !ok {
		return Event{}, false
	}
	return t.events[i], true
}

// Events returns the events of a PMU by name.
func (t *Table) Events(pmu string) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		if t == nil {
			return
		}
		i, _ := slices.BinarySearchFunc(t.events, pmu, func(e Event, pmu string) int { return strings.Compare(e.PMU, pmu) })
		for ; i < len(t.events) && t.events[i].PMU == pmu; i++ {
			if !yield(t.events[i]) {
				return
			}
		}
	}
}

// PMUs returns the names of the PMUs that have events, in alphabetical order.
func (t *Table) PMUs() []string {
	if t == nil {
		return nil
	}
	var names []string
	for rest := t.events; len(rest) > 0; {
		pmu := rest[0].PMU
		names = append(names, pmu)
		rest = rest[sort.Search(len(rest), func(i int) bool { return rest[i].PMU > pmu }):]
	}
	return names
}

// Metric returns the metrics of a name: one, or one for each kind of core or each identifier of a PMU. Case does not matter.
func (t *Table) Metric(name string) []Metric {
	if t == nil {
		return nil
	}
	compare := func(m Metric, name string) int { return strings.Compare(strings.ToLower(m.Name), name) }
	name = strings.ToLower(name)
	first, _ := slices.BinarySearchFunc(t.metrics, name, compare)
	end := first
	for end < len(t.metrics) && compare(t.metrics[end], name) == 0 {
		end++
	}
	return t.metrics[first:end:end]
}

// Metrics returns all metrics by name.
func (t *Table) Metrics() iter.Seq[Metric] {
	return func(yield func(Metric) bool) {
		if t == nil {
			return
		}
		for _, m := range t.metrics {
			if !yield(m) {
				return
			}
		}
	}
}
