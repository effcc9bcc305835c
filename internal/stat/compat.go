package stat

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bperf/bperf/internal/metric"
)

// Compat is the version of perf whose metrics are printed: which ones, under which names, in which shape. The zero value is Perf73.
type Compat int

// The versions of perf whose output differs.
const (
	Perf73 Compat = iota // a unit and the metric's name: "instructions  insn_per_cycle"
	Perf61               // a description in place of the name: "insn per cycle"
)

// ParseCompat returns the version that --compat names.
func ParseCompat(version string) (Compat, error) {
	switch version {
	case "7.3":
		return Perf73, nil
	case "6.1":
		return Perf61, nil
	default:
		return 0, fmt.Errorf("bperf prints metrics as perf 6.1 or 7.3 does, not as perf %q: give one of these versions", version)
	}
}

// unit73 is the unit that perf 7.3 prints before a metric's name. The zero value is that of a metric that perf 7.3 does not have.
type unit73 struct {
	factor float64 // converts the metric's value to this unit
	unit   string  // empty for a plain ratio
}

// shownMetric is a metric as one version of perf prints it.
type shownMetric struct {
	text     string // behind an event, with its value
	value    float64
	decimals int
	unit     string // behind the value
	column   string // the heading with --metric-only
	suffix   string // of the value below that heading
	scaled   bool

	judgement metric.Judgement
}

// metrics returns the row's metrics that the version prints, in its form. Metrics of BPF programs, which no perf has, are printed in any
// case.
func (o *OutputOptions) metrics(r *Row) []shownMetric {
	var list []shownMetric
	for i := range r.Metrics {
		m := &r.Metrics[i]
		switch {
		case m.ofVendor:
			list = append(list, m.shown73())
		case o.Compat == Perf61:
			if m.in61() {
				list = append(list, m.shown61(r.Name))
			}
		case m.in73.factor == 0:
		case o.Metrics == nil, m.ofPrograms, slices.Contains(o.Metrics, m.Name):
			list = append(list, m.shown73())
		}
	}
	return list
}

// in61 reports whether perf 6.1 has the metric.
func (m Metric) in61() bool { return m.Unit != "" }

// shown61 returns the metric of an event as perf 6.1 prints it.
func (m *Metric) shown61(event string) shownMetric {
	s := shownMetric{value: m.Value, decimals: 3, unit: m.Unit, column: m.Unit, scaled: m.Scaled}
	switch m.Kind {
	case Quantity, PerRun:
		s.text = fmt.Sprintf(" # %8.3f %s", m.Value, m.Unit)
	case Ratio:
		s.decimals = 2
		s.text = fmt.Sprintf(" # %7.2f  %s", m.Value, m.Unit)
	case Percent:
		s.decimals, s.suffix = 2, "%"
		s.text = fmt.Sprintf(" # %7.2f%% %s", m.Value, m.Unit)
	case Rate:
		v, prefix := m.Value, ""
		for _, p := range []string{"K", "M", "G"} {
			if v > 1000 {
				v, prefix = v/1000, p
			}
		}
		s.text = fmt.Sprintf(" # %8.3f %s%s", v, prefix, m.Unit)
	}
	switch { // the unit alone is ambiguous
	case m.Kind == Rate:
		s.column = event + m.Unit
	case m.Kind == PerRun, strings.HasPrefix(m.Unit, "of "):
		s.column = event + " " + m.Unit
	}
	return s
}

// shown73 returns the metric as perf 7.3 prints it: with one decimal and the unit, or with two decimals if it has no unit.
func (m *Metric) shown73() shownMetric {
	s := shownMetric{value: m.Value * m.in73.factor, decimals: 2, unit: m.Name, scaled: m.Scaled, judgement: m.Judgement}
	if m.in73.unit != "" {
		s.decimals, s.unit = 1, m.in73.unit+"  "+m.Name
	}
	s.column = s.unit
	s.text = fmt.Sprintf(" # %8.*f %s", s.decimals, s.value, s.unit)
	return s
}

// metricWidth returns the width of the text of a metric behind an event.
func (c Compat) metricWidth() int {
	if c == Perf61 {
		return 35
	}
	return 38
}

// countersKey returns the JSON key of the number of counters that a row adds up.
func (c Compat) countersKey() string {
	if c == Perf61 {
		return "aggregate-number"
	}
	return "counters"
}

// metricJSON adds a metric to an object. In perf 6.1 the value is a number.
func (c Compat) metricJSON(f *object, m shownMetric) {
	value := fixed(m.value, 6)
	if c != Perf61 {
		value = quote(value)
	}
	f.raw("metric-value", value)
	f.string("metric-unit", m.unit)
	if word := judgements[m.judgement]; word != "" && c != Perf61 {
		f.string("metric-threshold", word)
	}
}

// judgements are perf's words for what a threshold says of a metric.
var judgements = map[metric.Judgement]string{metric.Good: "good", metric.Bad: "bad"}

// noMetricJSON completes the object of an event without a metric: perf 6.1 prints both keys anyway.
func (c Compat) noMetricJSON(f *object) {
	if c == Perf61 {
		c.metricJSON(f, shownMetric{})
	}
}

// columnJSON returns the string for a metric with --metric-only.
func (c Compat) columnJSON(m shownMetric) string {
	if c == Perf61 {
		return fixed(m.value, 6)
	}
	return fixed(m.value, m.decimals)
}
