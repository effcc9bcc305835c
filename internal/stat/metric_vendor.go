package stat

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/metric"
)

// VendorMetrics are the metrics of the CPU's vendor that a session computes.
type VendorMetrics struct {
	facts  *metric.Facts
	wanted []wantedMetric
	only   bool            // print only the metrics, by their default groups, and not the counts of their events
	units  map[int]float64 // the number of PMUs that each term is counted on
	tools  map[int]event.Tool
}

// wantedMetric is a metric, and the term of the event list for each of its events.
type wantedMetric struct {
	*metric.Metric
	terms map[string]int
}

// NewVendorMetrics returns metrics without any: Add adds them.
func NewVendorMetrics(f *metric.Facts) *VendorMetrics {
	return &VendorMetrics{facts: f, units: make(map[int]float64), tools: make(map[int]event.Tool)}
}

// NewDefaultMetrics is like NewVendorMetrics for metrics of a session without named events: only the metrics are printed, in rows of their
// own, not their events.
func NewDefaultMetrics(f *metric.Facts) *VendorMetrics {
	v := NewVendorMetrics(f)
	v.only = true
	return v
}

// Add parses the events that a selection of metrics needs. parse is the parser of the session's events. It numbers their terms from first.
// Add returns the events, whose terms follow one another.
//
// The events of a set are a weak group for each PMU, because a group counts on one PMU. Software and tool events always run, so they are in
// no group.
func (v *VendorMetrics) Add(s *metric.Selection, first int, parse func(string) (event.List, error)) (event.List, error) {
	a := arranger{parse: parse, term: first, tools: make(map[string]int)}
	terms := make([]map[string]int, len(s.Sets))
	for i := range s.Sets {
		terms[i] = make(map[string]int)
		if err := a.arrange(&s.Sets[i], terms[i]); err != nil {
			return nil, err
		}
	}
	for i, m := range s.Metrics {
		v.wanted = append(v.wanted, wantedMetric{m, terms[s.Of[i]]})
	}
	for _, e := range a.list.Events() {
		v.units[e.Term]++
		v.tools[e.Term] = e.Tool
	}
	return a.list, nil
}

// Names returns the names of the metrics.
func (v *VendorMetrics) Names() []string {
	var names []string
	for _, w := range v.wanted {
		names = append(names, w.Title())
	}
	return names
}

// arranger builds the event list of sets of events.
type arranger struct {
	parse func(string) (event.List, error)
	list  event.List
	term  int            // the next one
	tools map[string]int // terms of tool events, which all sets share
}

// arrange adds the events of a set to the list, and their terms to terms.
func (a *arranger) arrange(s *metric.Set, terms map[string]int) error {
	type pmuGroup struct {
		pmu   string
		names []string
	}
	var groups []pmuGroup
	for _, name := range s.Events {
		if term, known := a.tools[name]; known {
			terms[name] = term
			continue
		}
		pmu, err := a.groupPMU(name, s.Grouped)
		if err != nil {
			return fmt.Errorf("a metric needs the event %s: %w", name, err)
		}
		i := slices.IndexFunc(groups, func(g pmuGroup) bool { return pmu != "" && g.pmu == pmu })
		if i < 0 {
			i = len(groups)
			groups = append(groups, pmuGroup{pmu: pmu})
		}
		groups[i].names = append(groups[i].names, name)
	}
	for _, g := range groups {
		if err := a.add(a.slotsFirst(g.names), s.Modifiers, terms); err != nil {
			return err
		}
	}
	return nil
}

// groupPMU returns the PMU whose group an event is in, or "" for none.
func (a *arranger) groupPMU(name string, grouped bool) (string, error) {
	list, err := a.parse(name)
	if err != nil {
		return "", err
	}
	e := list.Events()[0]
	if e.Tool != event.ToolNone || e.PMU == "software" || e.PMU == "tracepoint" || !grouped && !a.isTopdown(name) {
		return "", nil
	}
	return e.PMU, nil
}

// add adds a group to the list. Modifiers follow each of its events, but only the first can be pinned or exclusive.
func (a *arranger) add(names []string, modifiers string, terms map[string]int) error {
	written := make([]string, len(names))
	for i, name := range names {
		written[i] = event.AddModifiers(name, modifiers)
		modifiers = event.MemberModifiers(modifiers)
	}
	list, err := a.parse(group(written))
	if err != nil {
		return err
	}
	for _, e := range list.Events() {
		e.Term += a.term
	}
	for i, name := range names {
		terms[name] = a.term + i
	}
	if list.Events()[0].Tool != event.ToolNone {
		a.tools[names[0]] = a.term
	}
	a.term += len(names)
	a.list = append(a.list, list...)
	return nil
}

// slotsEvents are the names of the event that counts with the topdown events of an Intel CPU: the kernel accepts those only in a group that
// it leads (tools/perf/Documentation/topdown.txt).
var slotsEvents = []string{"slots", "topdown.slots"}

// bare returns the name of an event without its PMU, and the part before it.
func bare(name string) (pmu, event string) {
	if i := strings.IndexByte(name, '/'); i >= 0 {
		return name[:i+1], strings.TrimSuffix(name[i+1:], "/")
	}
	return "", name
}

// isTopdown reports whether an event must be counted with slots, or is slots. On cores without the event slots, topdown events are
// ordinary.
func (a *arranger) isTopdown(name string) bool {
	pmu, event := bare(strings.ToLower(name))
	if !strings.HasPrefix(event, "topdown-") && !slices.Contains(slotsEvents, event) {
		return false
	}
	return a.slots(pmu) != ""
}

// slots returns the event slots of a PMU, or "".
func (a *arranger) slots(pmu string) string {
	name := pmu + "slots"
	if pmu != "" {
		name += "/"
	}
	if _, err := a.parse(name); err != nil {
		return ""
	}
	return name
}

// slotsFirst puts slots before the other events if one of them needs that.
func (a *arranger) slotsFirst(names []string) []string {
	i := slices.IndexFunc(names, func(name string) bool {
		_, event := bare(strings.ToLower(name))
		return strings.HasPrefix(event, "topdown-") && a.isTopdown(name)
	})
	if i < 0 {
		return names
	}
	at := slices.IndexFunc(names, func(name string) bool {
		_, event := bare(strings.ToLower(name))
		return slices.Contains(slotsEvents, event)
	})
	if at < 0 {
		pmu, _ := bare(names[i])
		return append([]string{a.slots(pmu)}, names...)
	}
	return slices.Concat(names[at:at+1], names[:at], names[at+1:])
}

// scope is a place and a cgroup or BPF program, whose rows belong together.
type scope struct{ place, group string }

// withMetrics adds the metrics to the rows: bperf's own and, if v is not nil, those of the CPU's vendor. elapsed is the time in which the
// rows were counted. It returns the rows to print.
func withMetrics(rows []Row, v *VendorMetrics, elapsed time.Duration) []Row {
	if v == nil || !v.only {
		addMetrics(rows, elapsed)
		v.compute(rows, elapsed)
		return rows
	}
	var shown, needed []Row
	for _, r := range rows {
		if _, needs := v.units[r.Event.Term]; needs {
			r.Metrics = nil
			needed = append(needed, r)
		} else {
			shown = append(shown, r)
		}
	}
	addMetrics(shown, elapsed)
	return append(shown, v.groupRows(needed, elapsed)...)
}

// compute adds the metrics to the rows. Each is computed for every place and cgroup, and stands in the first row of its events. A metric
// that cannot be computed is left out.
func (v *VendorMetrics) compute(rows []Row, elapsed time.Duration) {
	if v == nil {
		return
	}
	v.each(rows, elapsed, func(_ wantedMetric, first int, m Metric) {
		rows[first].Metrics = append(rows[first].Metrics, m)
	})
}

// each calls add for each metric of each place and cgroup, with the first row of its events.
func (v *VendorMetrics) each(rows []Row, elapsed time.Duration, add func(w wantedMetric, first int, m Metric)) {
	scopes := make(map[scope]map[int][]int)
	var order []scope
	for i := range rows {
		at := scope{rows[i].Place.ID, rows[i].group()}
		if scopes[at] == nil {
			scopes[at] = make(map[int][]int)
			order = append(order, at)
		}
		term := rows[i].Event.Term
		scopes[at][term] = append(scopes[at][term], i)
	}
	for _, at := range order {
		for _, w := range v.wanted {
			r := vendorReadings{v: v, metric: w, rows: rows, of: scopes[at], elapsed: elapsed}
			if m, first, ok := r.compute(); ok {
				add(w, first, m)
			}
		}
	}
}

// groupRows returns rows of the metrics by their default groups, computed from the rows of their events. The places of a group follow one
// another.
func (v *VendorMetrics) groupRows(rows []Row, elapsed time.Duration) []Row {
	byTitle := make(map[string][]Row)
	v.each(rows, elapsed, func(w wantedMetric, first int, m Metric) {
		title := w.DefaultGroup
		if w.PMU != "" {
			title += " (" + w.PMU + ")" // each kind of core has metrics of the same names
		}
		of := byTitle[title]
		place, group := rows[first].Place.ID, rows[first].group()
		if len(of) == 0 || of[len(of)-1].Place.ID != place || of[len(of)-1].group() != group {
			of = append(of, rows[first])
			of[len(of)-1].Name, of[len(of)-1].OnlyMetrics = title, true
			byTitle[title] = of
		}
		last := &of[len(of)-1]
		last.Metrics = append(last.Metrics, m)
	})
	var all []Row
	for _, title := range slices.Sorted(maps.Keys(byTitle)) {
		all = append(all, byTitle[title]...)
	}
	return all
}

// vendorReadings are the readings that a metric is computed from.
type vendorReadings struct {
	v       *VendorMetrics
	metric  wantedMetric
	rows    []Row
	of      map[int][]int // the rows of the scope, by term
	elapsed time.Duration
	scaled  bool // a reading is an estimate
}

// compute returns the metric, and the first row of its events. It reports whether the metric can be computed.
func (r *vendorReadings) compute() (m Metric, first int, ok bool) {
	first = -1
	for _, name := range r.metric.Events() {
		for _, i := range r.of[r.metric.terms[name]] {
			if first < 0 || i < first {
				first = i
			}
		}
	}
	if first < 0 {
		return m, first, false
	}
	value, judgement := r.metric.Compute(r.v.facts, metric.Values{Count: r.count, Sources: r.sources})
	m = Metric{Name: r.metric.Title(), Value: value, Scaled: r.scaled, Judgement: judgement, in73: unit73{1, r.metric.Suffix}, ofVendor: true}
	return m, first, finite(value)
}

// count returns the count of an event without its scale, and times in seconds. It is NaN if the event was not counted.
func (r *vendorReadings) count(name string) float64 {
	term := r.metric.terms[name]
	tool := r.v.tools[term]
	if tool == event.DurationTime { // it is the same in all places
		return r.elapsed.Seconds()
	}
	if len(r.of[term]) == 0 {
		return math.NaN()
	}
	sum := 0.0
	for _, i := range r.of[term] {
		if r.rows[i].absent() != "" {
			return math.NaN()
		}
		r.scaled = r.scaled || r.rows[i].Scaled()
		sum += r.rows[i].Value
	}
	if tool != event.ToolNone {
		return sum * 1e-9
	}
	return sum
}

// sources returns the number of PMUs that an event was counted on.
func (r *vendorReadings) sources(name string) float64 { return r.v.units[r.metric.terms[name]] }
