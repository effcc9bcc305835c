package stat

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bperf/bperf/internal/count/program"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/metric"
	"github.com/bperf/bperf/perfdata"
)

// addMetrics computes the metrics of the rows. Each metric combines rows of the same place and cgroup, and of the same PMU and modifiers,
// because user cycles say nothing about kernel instructions. elapsed is the time in which the rows were counted. A metric that cannot be
// computed is left out.
func addMetrics(rows []Row, elapsed time.Duration) {
	index := indexInputs(rows)
	for i := range rows {
		r := &rows[i]
		r.Metrics = nil
		if r.absent() != "" {
			continue
		}
		in := inputs{rows: rows, index: index, row: i, elapsed: elapsed}
		if r.Runs != nil {
			in.add(perRun(r))
		}
		before := len(r.Metrics)
		of := canonical(r.Event)
		for _, m := range metrics {
			if m.event == of {
				in.add(m)
			}
		}
		if !slices.ContainsFunc(r.Metrics[before:], Metric.in61) && hasRate(r.Event) {
			in.add(rateOf(r.Event))
		}
	}
}

// hasRate reports whether a rate per second makes sense for an event. It does not for levels, for times, for events with a unit, or for
// events outside of the CPUs whose time the clock measures.
func hasRate(e *event.Event) bool {
	return e.Tool == event.ToolNone && !e.Snapshot && !e.Uncore && e.Unit == "" && e.PMU != program.PMU
}

// rateOf returns the metric of events that have no other: their rate per second, which perf 7.3 does not have.
func rateOf(e *event.Event) ownMetric {
	name := strings.ReplaceAll(e.Name, "-", "_") + "_per_second"
	return ownMetric{MetricInfo: MetricInfo{Name: name, Unit: "/sec"}, kind: Rate, value: (*inputs).rate}
}

// input is the key by which metrics find rows.
type input struct {
	place, cgroup string
	pmu           string // empty for clocks, which run on all PMUs
	exclude       perfdata.AttrFlags
	event         string // canonical name
}

const (
	clock        = "clock" // stands for task-clock or cpu-clock
	excludeFlags = perfdata.AttrExcludeUser | perfdata.AttrExcludeKernel | perfdata.AttrExcludeHV | perfdata.AttrExcludeIdle |
		perfdata.AttrExcludeHost | perfdata.AttrExcludeGuest
)

func inputOf(r *Row, name string) input {
	in := input{place: r.Place.ID, cgroup: r.group(), event: name}
	if name == clock {
		return in
	}
	in.pmu, in.exclude = r.Event.PMU, r.Event.Attr.Flags&excludeFlags
	return in
}

// indexInputs indexes the rows that have a value and can be part of a metric.
func indexInputs(rows []Row) map[input][]int {
	index := make(map[input][]int)
	for i := range rows {
		r := &rows[i]
		name := canonical(r.Event)
		if name == "" || r.absent() != "" {
			continue
		}
		if isClock(name) {
			name = clock
		}
		in := inputOf(r, name)
		index[in] = append(index[in], i)
	}
	return index
}

// inputs computes the metrics of one row. A metric asks it for the counts that it needs; inputs records whether one is missing or an
// estimate.
type inputs struct {
	rows    []Row
	index   map[input][]int
	row     int
	elapsed time.Duration

	missing bool // a count is missing
	scaled  bool // a count is an estimate
}

// add adds the metric to its row if it can be computed.
func (in *inputs) add(m ownMetric) {
	in.missing, in.scaled = false, false
	v := m.value(in)
	if in.missing || !finite(v) {
		return
	}
	r := &in.rows[in.row]
	r.Metrics = append(r.Metrics, Metric{Name: m.Name, Value: v, Unit: m.Unit, Kind: m.kind, Scaled: in.scaled,
		in73: m.in73, ofPrograms: m.kind == PerRun || r.Event.PMU == program.PMU})
}

// own returns the row's count.
func (in *inputs) own() float64 {
	in.scaled = in.scaled || in.rows[in.row].Scaled()
	return in.rows[in.row].Value
}

// find returns the nearest row with the named event, or nil. In a list of groups, the nearest one is in the same group.
func (in *inputs) find(name string) *Row {
	fit := in.index[inputOf(&in.rows[in.row], name)]
	if len(fit) == 0 {
		return nil
	}
	distance := func(i int) int { return max(i-in.row, in.row-i) }
	return &in.rows[slices.MinFunc(fit, func(a, b int) int { return distance(a) - distance(b) })]
}

// count returns the count of another event.
func (in *inputs) count(name string) float64 {
	r := in.find(name)
	if r == nil {
		in.missing = true
		return 0
	}
	in.scaled = in.scaled || r.Scaled()
	return r.Value
}

// larger returns the larger count of two events. One of them is enough.
func (in *inputs) larger(a, b string) float64 {
	ra, rb := in.find(a), in.find(b)
	if ra == nil || rb != nil && rb.Value > ra.Value {
		return in.count(b)
	}
	return in.count(a)
}

// percentOf returns a function that computes the row's count in percent of another.
func percentOf(name string) func(*inputs) float64 {
	return func(in *inputs) float64 { return 100 * in.own() / in.count(name) }
}

// busy returns the CPU time, in ns, in which the row's counters could count. That is the value of a clock, unless the PMU exists on only
// some of the CPUs that the clock covers. Then the time that the row's own counters were enabled covers exactly those CPUs.
func (in *inputs) busy() float64 {
	r, c := &in.rows[in.row], in.find(clock)
	switch {
	case c == nil:
		in.missing = true
		return 0
	case c.Place.Counters != r.Place.Counters:
		in.missing = in.missing || r.Event.CPUs == nil
		return float64(r.Enabled)
	default:
		in.scaled = in.scaled || c.Scaled()
		return c.Value
	}
}

// rate returns the row's count per second of CPU time.
func (in *inputs) rate() float64 { return in.own() / in.busy() * float64(time.Second) }

// frequency returns the clock frequency in GHz. Cycles of only user mode or only the kernel have none, because the CPU time covers both.
func (in *inputs) frequency() float64 {
	in.missing = in.rows[in.row].Event.Attr.Flags&(perfdata.AttrExcludeUser|perfdata.AttrExcludeKernel) != 0
	return in.own() / in.busy()
}

// utilized returns CPU time per elapsed time.
func (in *inputs) utilized() float64 { return in.own() / float64(in.elapsed) }

// often returns the row's count per second of elapsed time.
func (in *inputs) often() float64 { return in.own() / in.elapsed.Seconds() }

// perRun returns the metric for the mean count of one run of a BPF program.
func perRun(r *Row) ownMetric {
	scale, unit := r.runUnit()
	return ownMetric{
		MetricInfo: MetricInfo{Name: strings.ReplaceAll(r.Event.Name, "-", "_") + "_per_run", Unit: strings.TrimSpace(unit + " per run")},
		kind:       PerRun,
		in73:       unit73{1, unit},
		value: func(in *inputs) float64 {
			in.own()
			in.missing = r.Runs.Counted == 0
			return r.PerRun * scale
		},
	}
}

// runUnit returns the unit for single runs, and the factor that converts counts to it. A time is in ns, because a run takes few of them.
func (r *Row) runUnit() (scale float64, unit string) {
	if r.Event.Unit == "msec" && r.Event.Scale == 1e-6 {
		return 1, "ns"
	}
	return r.Event.Scale, r.Event.Unit
}

// HasMetric reports whether bperf itself defines a metric of this name, ignoring case.
func HasMetric(name string) bool {
	m := lookup(name)
	return m != nil && strings.EqualFold(m.Name, name)
}

// HasAlias reports whether bperf itself defines a metric of this name or alias, ignoring case.
func HasAlias(name string) bool { return lookup(name) != nil }

// MetricEvents returns the events that the named metrics need, as terms for the event parser. names is a comma-separated list, in which
// modifiers of the events can follow a name: "insn_per_cycle:u". The events of a ratio form a weak group, which stays together if the PMU has
// room for it: "{instructions,cycles}:W".
func MetricEvents(names string, o metric.Options) ([]string, error) {
	var sets [][]string
	for name := range strings.SplitSeq(names, ",") {
		m, modifiers, err := findModified(strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		for _, set := range m.sets() {
			of := modifiers
			for i, e := range set {
				set[i] = event.AddModifiers(e, of)
				of = event.MemberModifiers(of)
			}
			if o.NoGroup {
				sets = slices.AppendSeq(sets, slices.Chunk(set, 1))
			} else {
				sets = append(sets, set)
			}
		}
	}
	var terms []string
	for i, set := range sets {
		if o.NoMerge || !covered(set, sets, i) {
			terms = append(terms, group(set))
		}
	}
	return terms, nil
}

// covered reports whether another set contains all events of sets[i].
func covered(set []string, sets [][]string, i int) bool {
	return slices.ContainsFunc(sets, func(other []string) bool { return len(other) > len(set) && metric.Subset(set, other) }) ||
		slices.ContainsFunc(sets[:i], func(other []string) bool { return metric.Subset(set, other) })
}

func group(events []string) string {
	if len(events) == 1 {
		return events[0]
	}
	return "{" + strings.Join(events, ",") + "}:W"
}

// MetricNames returns perf's names of the metrics that MetricEvents accepts.
func MetricNames(names string) ([]string, error) {
	var found []string
	for name := range strings.SplitSeq(names, ",") {
		m, _, err := findModified(strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		found = append(found, m.Name)
	}
	return found, nil
}

// OwnMetrics returns perf's names of those of the named metrics that are bperf's own. Modifiers can follow the names.
func OwnMetrics(names []string) ([]string, error) {
	own := []string{}
	for _, written := range names {
		name, _, err := event.CutModifiers(written)
		if err != nil {
			return nil, err
		}
		if m := lookup(name); m != nil {
			own = append(own, m.Name)
		}
	}
	return own, nil
}

// lookup returns the metric with a name or alias, ignoring case, or nil.
func lookup(name string) *ownMetric {
	for i := range metrics {
		m := &metrics[i]
		if strings.EqualFold(name, m.Name) || m.Alias != "" && strings.EqualFold(name, m.Alias) {
			return m
		}
	}
	return nil
}

// findMetric returns the metric with a name or alias, ignoring case.
func findMetric(name string) (*ownMetric, error) {
	if m := lookup(name); m != nil {
		return m, nil
	}
	return nil, UnknownMetric(name, nil)
}

// findModified returns the metric of NAME or NAME:MODIFIERS, and the modifiers.
func findModified(s string) (*ownMetric, string, error) {
	name, modifiers, err := event.CutModifiers(s)
	if err != nil {
		return nil, "", err
	}
	m, err := findMetric(name)
	return m, modifiers, err
}

// UnknownMetric is the error for a name that is no metric, where there are others besides bperf's own.
func UnknownMetric(name string, others []string) error {
	var names []string
	for _, m := range Metrics() {
		names = append(names, m.Name)
	}
	if near := event.Nearest(name, slices.Concat(names, others)); len(near) > 0 {
		return fmt.Errorf("no metric is named %q; nearest: %s", name, strings.Join(near, ", "))
	}
	return fmt.Errorf("no metric is named %q; there are %s", name, strings.Join(names, ", "))
}
