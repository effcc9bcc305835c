package otlp

import (
	"encoding/binary"
	"math"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// Metrics is a request with metrics that is being built: ExportMetricsServiceRequest of opentelemetry-proto, package
// opentelemetry.proto.collector.metrics.v1.
type Metrics struct {
	resource    message
	begin, time uint64 // in ns since 1970

	scope  message
	points uint64
}

// NewMetrics returns an empty request. Its counters began at 0 at the time begin, and have their values at the time at.
func NewMetrics(resource []Attribute, begin, at time.Time) *Metrics {
	return &Metrics{resource: attributes(1, resource), begin: uint64(begin.UnixNano()), time: uint64(at.UnixNano()), scope: message{}.message(1, scope)}
}

// Points returns the number of values in the request.
func (m *Metrics) Points() uint64 { return m.points }

// Size returns about the number of bytes that Bytes returns.
func (m *Metrics) Size() int { return len(m.resource) + len(m.scope) }

// Bytes returns the request in the wire format.
func (m *Metrics) Bytes() []byte {
	return message{}.message(1, message{}.message(1, m.resource).message(2, m.scope))
}

// Add adds values of a metric. Counters are cumulative; all other kinds that have a single value are gauges. Histograms and
// summaries are left out.
func (m *Metrics) Add(family *dto.MetricFamily, values []*dto.Metric) {
	var points message
	count := uint64(0)
	counter := family.GetType() == dto.MetricType_COUNTER
	for _, one := range values {
		value, ok := number(one)
		if !ok {
			continue
		}
		var labels []Attribute
		for _, l := range one.GetLabel() {
			if l.GetValue() != "" { // as in Prometheus, where a label without a value is no label
				labels = append(labels, Attribute{l.GetName(), l.GetValue()})
			}
		}
		begin := uint64(0)
		if counter {
			begin = m.begin
		}
		point := message{}.fixed(2, begin).fixed(3, m.time)
		point = binary.LittleEndian.AppendUint64(point.tag(4, wireFixed64), math.Float64bits(value)) // even if it is 0
		points = points.message(1, append(point, attributes(7, labels)...))
		count++
	}
	if count == 0 {
		return
	}
	const cumulative = 2 // AGGREGATION_TEMPORALITY_CUMULATIVE
	data, field := points, 5
	if counter {
		data, field = data.number(2, cumulative).number(3, 1), 7 // monotonic
	}
	m.scope = m.scope.message(2, message{}.text(1, family.GetName()).text(2, family.GetHelp()).message(field, data))
	m.points += count
}

// number returns the value of a metric that has a single one.
func number(m *dto.Metric) (float64, bool) {
	switch {
	case m.Counter != nil:
		return m.GetCounter().GetValue(), true
	case m.Gauge != nil:
		return m.GetGauge().GetValue(), true
	case m.Untyped != nil:
		return m.GetUntyped().GetValue(), true
	}
	return 0, false
}
