package metrics

import (
	"maps"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
)

// A scrape has some ten thousand series of containers, those that have ended included. prometheus.Registry makes the labels of each of them
// anew, and checks and sorts them, which takes more CPU time than writing them. So this package makes the families itself. Its tests check
// them as prometheus.Registry does.

// desc describes a metric.
type desc struct {
	name, help string
	labels     []string
	order      []int // indexes of labels, sorted by name
}

func newDesc(name, help string, labels ...string) *desc {
	d := &desc{name: name, help: help, labels: labels}
	for i := range labels {
		d.order = append(d.order, i)
	}
	slices.SortFunc(d.order, func(a, b int) int { return strings.Compare(labels[a], labels[b]) })
	return d
}

// pairs returns the labels with these values, sorted by name. It keeps values.
func (d *desc) pairs(values ...string) []*dto.LabelPair {
	all, pairs := make([]dto.LabelPair, len(values)), make([]*dto.LabelPair, len(values))
	for i, at := range d.order {
		all[i].Name, all[i].Value = &d.labels[at], &values[at]
		pairs[i] = &all[i]
	}
	return pairs
}

func newLabel(name, value string) *dto.LabelPair { return &dto.LabelPair{Name: &name, Value: &value} }

// with returns sorted labels and one more.
func with(pairs []*dto.LabelPair, one *dto.LabelPair) []*dto.LabelPair {
	all := make([]*dto.LabelPair, 0, len(pairs)+1)
	at := 0
	for at < len(pairs) && *pairs[at].Name < *one.Name {
		at++
	}
	return append(append(append(all, pairs[:at]...), one), pairs[at:]...)
}

// scrape is one collection of all metrics.
type scrape struct {
	families map[*desc]*dto.MetricFamily
	counters []counter // memory for the next ones
	room     int       // for more series
	leftOut  uint64    // series
	err      error
}

// counter is a metric in one piece of memory.
type counter struct {
	dto.Metric
	counter dto.Counter
	value   float64
}

// atOnce is the number of counters for which memory is taken at once.
const atOnce = 256

// add adds a counter with labels that are sorted by name, and that nothing changes later.
func (s *scrape) add(d *desc, value float64, labels []*dto.LabelPair) {
	if len(s.counters) == 0 {
		s.counters = make([]counter, atOnce)
	}
	c := &s.counters[0]
	s.counters = s.counters[1:]
	c.value = value
	c.counter.Value = &c.value
	c.Counter, c.Label = &c.counter, labels
	f := s.family(d, dto.MetricType_COUNTER)
	f.Metric = append(f.Metric, &c.Metric)
}

func (s *scrape) counter(d *desc, value float64, labels ...string) {
	s.add(d, value, d.pairs(labels...))
}

func (s *scrape) gauge(d *desc, value float64, labels ...string) {
	f := s.family(d, dto.MetricType_GAUGE)
	f.Metric = append(f.Metric, &dto.Metric{Gauge: &dto.Gauge{Value: &value}, Label: d.pairs(labels...)})
}

func (s *scrape) family(d *desc, kind dto.MetricType) *dto.MetricFamily {
	f := s.families[d]
	if f == nil {
		f = &dto.MetricFamily{Name: &d.name, Help: &d.help, Type: &kind}
		s.families[d] = f
	}
	return f
}

// sorted returns the families by name.
func (s *scrape) sorted() []*dto.MetricFamily {
	return slices.SortedFunc(maps.Values(s.families), func(a, b *dto.MetricFamily) int { return strings.Compare(a.GetName(), b.GetName()) })
}
