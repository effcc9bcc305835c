package metrics

import (
	"maps"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// A scrape has some ten thousand series of containers, those that have ended included. prometheus.Registry makes the labels of each of them
// anew, and checks and sorts them, which takes more CPU time than writing them. The library also takes 0.9 ms at the start of each command
// of bperf. So this package makes the families itself. Its tests check them as prometheus.Registry does.

// Desc describes a metric.
type Desc struct {
	name, help string
	labels     []string
}

// NewDesc returns the description of a metric that has these labels.
func NewDesc(name, help string, labels ...string) *Desc {
	return &Desc{name, help, labels}
}

// pairs returns the labels with these values, sorted by name. It keeps values.
func (d *Desc) pairs(values ...string) []*dto.LabelPair {
	all, pairs := make([]dto.LabelPair, len(values)), make([]*dto.LabelPair, len(values))
	for i := range values {
		all[i].Name, all[i].Value = &d.labels[i], &values[i]
		pairs[i] = &all[i]
	}
	slices.SortFunc(pairs, func(a, b *dto.LabelPair) int { return strings.Compare(*a.Name, *b.Name) })
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

// Scrape is one collection of all metrics.
type Scrape struct {
	families map[*Desc]*dto.MetricFamily
	counters []counter // memory for the next ones
	room     int       // for more series
	leftOut  uint64    // series
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
func (s *Scrape) add(d *Desc, value float64, labels []*dto.LabelPair) {
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

// Counter adds a counter with the values of its labels, in the order of NewDesc.
func (s *Scrape) Counter(d *Desc, value float64, labels ...string) {
	s.add(d, value, d.pairs(labels...))
}

// Gauge adds a gauge with the values of its labels, in the order of NewDesc.
func (s *Scrape) Gauge(d *Desc, value float64, labels ...string) {
	f := s.family(d, dto.MetricType_GAUGE)
	f.Metric = append(f.Metric, &dto.Metric{Gauge: &dto.Gauge{Value: &value}, Label: d.pairs(labels...)})
}

// Whether adds a gauge that is 1 if something is the case, and 0 if not.
func (s *Scrape) Whether(d *Desc, is bool, labels ...string) {
	value := 0.0
	if is {
		value = 1
	}
	s.Gauge(d, value, labels...)
}

// Time adds a gauge of when something happened, in seconds since 1970. Without a time it adds nothing.
func (s *Scrape) Time(d *Desc, at time.Time, labels ...string) {
	if !at.IsZero() {
		s.Gauge(d, float64(at.UnixMilli())/1000, labels...)
	}
}

func (s *Scrape) family(d *Desc, kind dto.MetricType) *dto.MetricFamily {
	f := s.families[d]
	if f == nil {
		f = &dto.MetricFamily{Name: &d.name, Help: &d.help, Type: &kind}
		s.families[d] = f
	}
	return f
}

// sorted returns the families by name.
func (s *Scrape) sorted() []*dto.MetricFamily {
	return slices.SortedFunc(maps.Values(s.families), func(a, b *dto.MetricFamily) int { return strings.Compare(a.GetName(), b.GetName()) })
}
