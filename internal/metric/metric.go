// Package metric computes the metrics that the makers of CPUs define in perf's expression language. It parses expressions, chooses which
// events to count together, and computes values and thresholds from counts. It opens no events.
package metric

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/event/vendor"
)

// Metric is a metric of the machine, ready to be computed.
type Metric struct {
	vendor.Metric
	Scale float64 // converts its value to Suffix
	// Suffix is the unit of ScaleUnit, such as "%". Without ScaleUnit, it is empty.
	Suffix string
	// Modifiers are the letters that follow its events, as in the event "cycles:u".
	Modifiers string

	expr, threshold *Expr    // threshold is nil without one
	events          []string // of both, in the order of the expressions
	unknown         []string // literals of expr that the machine does not report a value for, in lower case, without #
}

// Events returns the events that the metric and its threshold need.
func (m *Metric) Events() []string { return m.events }

// Title returns the metric's name with its modifiers: "ipc:u".
func (m *Metric) Title() string {
	if m.Modifiers == "" {
		return m.Name
	}
	return m.Name + ":" + m.Modifiers
}

// Judgement says what a metric's threshold thinks of its value.
type Judgement int

// The judgements.
const (
	Unjudged Judgement = iota // the metric has no threshold, or it cannot be computed
	Good
	Bad
)

// Compute returns the metric's value in its unit, NaN if it cannot be computed, and what its threshold says.
func (m *Metric) Compute(f *Facts, v Values) (float64, Judgement) {
	ev := evaluation{facts: f, values: v, metrics: make(map[*Expr]float64)}
	value := ev.of(m.expr) * m.Scale
	if m.threshold == nil || !finite(value) {
		return value, Unjudged
	}
	switch t := ev.of(m.threshold); {
	case !finite(t):
		return value, Unjudged
	case t != 0:
		return value, Bad
	default:
		return value, Good
	}
}

// maxReferences limits how many metrics a metric refers to, directly or through others.
const maxReferences = 1000

// Catalog has the metrics of a machine.
type Catalog struct {
	all   []vendor.Metric
	facts *Facts
	// byName has the metrics by name in lower case. A machine with several kinds of cores has some names once for each.
	byName map[string][]int
	parsed map[*vendor.Metric]*Expr // those that are complete, or in progress
	active map[*vendor.Metric]bool  // those in progress, to find cycles
}

// NewCatalog returns the catalog of these metrics.
func NewCatalog(all []vendor.Metric, f *Facts) *Catalog {
	c := &Catalog{all: all, facts: f, byName: make(map[string][]int), parsed: make(map[*vendor.Metric]*Expr), active: make(map[*vendor.Metric]bool)}
	for i := range all {
		name := strings.ToLower(all[i].Name)
		c.byName[name] = append(c.byName[name], i)
	}
	return c
}

// Find returns the metrics of a name, ignoring case, and those of the group of that name.
func (c *Catalog) Find(name string) []*vendor.Metric {
	var found []*vendor.Metric
	for i := range c.all {
		m := &c.all[i]
		inGroup := slices.ContainsFunc(m.Groups, func(g string) bool { return strings.EqualFold(g, name) })
		if strings.EqualFold(m.Name, name) || inGroup {
			found = append(found, m)
		}
	}
	return found
}

// Names returns the names of all metrics and groups.
func (c *Catalog) Names() []string {
	var names []string
	for i := range c.all {
		names = append(names, c.all[i].Name)
	}
	return append(names, c.Groups()...)
}

// Groups returns the names of all groups, sorted.
func (c *Catalog) Groups() []string {
	var names []string
	for i := range c.all {
		names = append(names, c.all[i].Groups...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// prepare parses a metric and everything that it refers to, and drops what the machine's facts make useless. Without a threshold, the
// metric's own is ignored.
func (c *Catalog) prepare(of *vendor.Metric, threshold bool) (*Metric, error) {
	m := &Metric{Metric: *of}
	var err error
	if m.Scale, m.Suffix, err = splitUnit(of.ScaleUnit); err != nil {
		return nil, fmt.Errorf("metric %s: %w", of.Name, err)
	}
	if m.expr, err = c.expression(of); err != nil {
		return nil, err
	}
	var events collector
	events.collect(m.expr)
	m.unknown = events.unknown
	if of.Threshold != "" && threshold {
		if m.threshold, err = c.resolve(of, of.Threshold); err != nil {
			return nil, err
		}
		events.collect(m.threshold)
	}
	if m.events = events.events; m.events == nil {
		m.events = []string{constantEvent}
	}
	return m, nil
}

// constantEvent is the event beside which a metric stands that needs none on this machine, as in perf.
const constantEvent = "duration_time"

// expression returns the expression of a metric with its references.
func (c *Catalog) expression(of *vendor.Metric) (*Expr, error) {
	if e := c.parsed[of]; e != nil {
		return e, nil
	}
	switch {
	case c.active[of]:
		return nil, fmt.Errorf("metric %s refers to itself", of.Name)
	case len(c.active) == maxReferences:
		return nil, fmt.Errorf("metric %s: more than %d metrics refer to one another", of.Name, maxReferences)
	}
	c.active[of] = true
	defer delete(c.active, of)
	e, err := c.resolve(of, of.Expr)
	if err != nil {
		return nil, err
	}
	c.parsed[of] = e
	return e, nil
}

// resolve parses an expression of a metric and resolves its references.
func (c *Catalog) resolve(of *vendor.Metric, expression string) (*Expr, error) {
	parsed, err := Parse(expression)
	if err != nil {
		return nil, fmt.Errorf("metric %s: %w", of.Name, err)
	}
	e := parsed.Simplify(c.facts)
	references := make(map[string]*Expr)
	for _, name := range e.names() {
		to := c.reference(of, name)
		if to == nil {
			continue
		}
		if references[name], err = c.expression(to); err != nil {
			return nil, err
		}
	}
	if len(references) == 0 {
		return e, nil
	}
	return &Expr{e.root.refer(references)}, nil
}

// reference returns the metric that a name in an expression means, or nil for an event. On a machine with several kinds of cores, it is the
// metric of the same kind.
func (c *Catalog) reference(from *vendor.Metric, name string) *vendor.Metric {
	var found *vendor.Metric
	for _, i := range c.byName[strings.ToLower(name)] {
		m := &c.all[i]
		if m.Name == name && (found == nil || m.PMU == from.PMU) {
			found = m
		}
	}
	return found
}

// splitUnit splits a ScaleUnit, such as "100%" or "1e-6MB/s", into the factor and the unit.
func splitUnit(scaleUnit string) (factor float64, unit string, err error) {
	if scaleUnit == "" {
		return 1, "", nil
	}
	n := numberSpan(scaleUnit)
	if n == 0 {
		return 0, "", fmt.Errorf("its unit %q starts with no number", scaleUnit)
	}
	factor, err = strconv.ParseFloat(scaleUnit[:n], 64)
	return factor, scaleUnit[n:], err
}

// Options say how metrics share events and counters.
type Options struct {
	NoGroup     bool // the events of a metric are in no group
	NoMerge     bool // each metric has its own events
	NoThreshold bool // count no events that only thresholds need

	NMIWatchdog bool // it takes a counter
	SMT         bool // the threads of a core share its counters
}

// Set is a set of events to count, of one or more metrics.
type Set struct {
	Events    []string // each once
	Grouped   bool     // they should be counted at the same time
	Modifiers string   // of all events, as in Metric
}

// Selection is what to count for metrics.
type Selection struct {
	Metrics []*Metric
	Sets    []Set
	Of      []int // the index in Sets for each of Metrics

	Skipped []string // members of groups of metrics for which the machine lacks an event
	// Unknown has the metrics whose expressions need a literal that the machine does not report a value for, each with the literal.
	Unknown []Unknown
}

// Unknown is a metric that has no value because the machine does not report that of a literal.
type Unknown struct{ Metric, Literal string }

// String returns the metric's name and the literal as expressions have it.
func (u Unknown) String() string { return u.Metric + " (#" + u.Literal + ")" }

// CheckValues notes which of the selected metrics of these names have no value, and why: where says what lacks something, such as "this
// machine". It returns an error if none has one.
func (s *Selection) CheckValues(names []string, where string, note func(string)) error {
	var reasons []string
	if len(s.Skipped) > 0 {
		reasons = append(reasons, where+" lacks some of their events: "+strings.Join(s.Skipped, ", "))
	}
	if len(s.Unknown) > 0 {
		var unknown []string
		for _, u := range s.Unknown {
			unknown = append(unknown, u.String())
		}
		reasons = append(reasons, where+" does not report a number that they need: "+strings.Join(unknown, ", "))
	}
	if len(s.Metrics) == 0 {
		return fmt.Errorf("no metric of %s has a value, because %s", strings.Join(names, ","), strings.Join(reasons, "; and because "))
	}
	for _, reason := range reasons {
		note("metrics without a value, because " + reason)
	}
	return nil
}

// Select returns what to count for the named metrics and groups of metrics. Each name must be one that Find knows. Modifiers can follow it,
// as in "ipc:u".
func (c *Catalog) Select(names []string, o Options) (*Selection, error) {
	return c.choose(names, o, func(*vendor.Metric) bool { return true })
}

// defaultGroup is the group of the metrics that perf stat prints if the user names no event.
const defaultGroup = "Default"

// IsDefault reports whether the vendor wants a metric in a session without named events. These metrics are printed under the name of a group,
// such as TopdownL1. bperf computes the others of the group Default itself.
func IsDefault(m vendor.Metric) bool {
	return slices.Contains(m.Groups, defaultGroup) && m.DefaultGroup != "" && !m.ShowEvents
}

// SelectDefaults returns what to count for the metrics of IsDefault.
func (c *Catalog) SelectDefaults(o Options) (*Selection, error) {
	return c.choose([]string{defaultGroup}, o, func(m *vendor.Metric) bool { return IsDefault(*m) })
}

// choose returns what to count for those of the named metrics that want accepts.
func (c *Catalog) choose(names []string, o Options, want func(*vendor.Metric) bool) (*Selection, error) {
	s := &Selection{}
	var grouped []bool
	type modified struct {
		*vendor.Metric
		modifiers string
	}
	known := make(map[modified]bool)
	for _, name := range names {
		name, modifiers, _ := strings.Cut(name, ":")
		for _, of := range c.Find(name) {
			if known[modified{of, modifiers}] || !want(of) {
				continue
			}
			known[modified{of, modifiers}] = true
			m, err := c.prepare(of, o.usesThreshold(of))
			if err != nil {
				return nil, err
			}
			if len(m.unknown) > 0 {
				s.Unknown = append(s.Unknown, Unknown{of.Name, m.unknown[0]})
				continue
			}
			m.Modifiers = modifiers
			if !strings.EqualFold(of.Name, name) && !c.hasEvents(m) {
				s.Skipped = append(s.Skipped, of.Name)
				continue
			}
			s.Metrics = append(s.Metrics, m)
			grouped = append(grouped, o.groups(of, name))
		}
	}
	s.share(grouped, o.NoMerge)
	return s, nil
}

// hasEvents reports whether the machine has the metric's events.
func (c *Catalog) hasEvents(m *Metric) bool {
	return !slices.ContainsFunc(m.events, func(e string) bool { return !c.facts.HasEvent(event.AddModifiers(e, m.Modifiers)) })
}

// The constraints of metrics.
const (
	noGroup        = "NO_GROUP_EVENTS"
	noGroupNMI     = "NO_GROUP_EVENTS_NMI"
	noGroupSMT     = "NO_GROUP_EVENTS_SMT"
	noThresholdNMI = "NO_THRESHOLD_AND_NMI"
)

// usesThreshold reports whether the metric's threshold is computed.
func (o *Options) usesThreshold(m *vendor.Metric) bool {
	return !o.NoThreshold && !(m.Constraint == noThresholdNMI && o.NMIWatchdog)
}

// groups reports whether the events of a metric should be counted at the same time. name is how the user asked for it: some metrics have no
// group if they are computed as a part of a group of metrics.
func (o *Options) groups(m *vendor.Metric, name string) bool {
	switch {
	case o.NoGroup, m.Constraint == noGroup,
		m.Constraint == noGroupNMI && o.NMIWatchdog,
		m.Constraint == noGroupSMT && o.SMT:
		return false
	}
	return !slices.ContainsFunc(m.NoGroup, func(g string) bool { return strings.EqualFold(g, name) })
}

// share puts the events of the metrics into sets. As in perf, metrics without a group share one set, and a metric whose events are all in
// the set of a larger metric uses that. Metrics with other modifiers share nothing.
func (s *Selection) share(grouped []bool, noMerge bool) {
	s.Of = make([]int, len(s.Metrics))
	order := make([]int, len(s.Metrics))
	common := make(map[string]int) // by modifiers
	for i, m := range s.Metrics {
		order[i] = i
		if grouped[i] || noMerge {
			continue
		}
		in, known := common[m.Modifiers]
		if !known {
			in = len(s.Sets)
			common[m.Modifiers] = in
			s.Sets = append(s.Sets, Set{Modifiers: m.Modifiers})
		}
		s.Sets[in].add(m.events)
		s.Of[i] = in
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(len(s.Metrics[b].events), len(s.Metrics[a].events)) })
	for _, i := range order {
		if !grouped[i] && !noMerge {
			continue
		}
		m := s.Metrics[i]
		in := slices.IndexFunc(s.Sets, func(set Set) bool {
			return !noMerge && set.Grouped && set.Modifiers == m.Modifiers && Subset(m.events, set.Events)
		})
		if in < 0 {
			in = len(s.Sets)
			s.Sets = append(s.Sets, Set{Events: slices.Clone(m.events), Grouped: grouped[i], Modifiers: m.Modifiers})
		}
		s.Of[i] = in
	}
}

// add adds the events that the set does not have.
func (s *Set) add(events []string) {
	for _, e := range events {
		if !slices.Contains(s.Events, e) {
			s.Events = append(s.Events, e)
		}
	}
}
