package otlp

import (
	"encoding/binary"
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

// Fields of Metric, one for each kind.
const (
	gaugeField       = 5
	sumField         = 7
	exponentialField = 10
)

// Add adds values of a metric. Counters are cumulative, and so are native histograms, as exponential histograms. All other kinds that have a
// single value are gauges. Summaries, and histograms that are not native, are left out.
func (m *Metrics) Add(family *dto.MetricFamily, values []*dto.Metric) {
	field := gaugeField
	switch family.GetType() {
	case dto.MetricType_COUNTER:
		field = sumField
	case dto.MetricType_HISTOGRAM:
		field = exponentialField
	}
	var data message
	count := uint64(0)
	for _, one := range values {
		var point message
		if field == exponentialField {
			point = m.histogram(one)
		} else {
			point = m.single(one, field == sumField)
		}
		if point != nil {
			data = data.message(1, point)
			count++
		}
	}
	if count == 0 {
		return
	}
	const cumulative = 2 // AGGREGATION_TEMPORALITY_CUMULATIVE
	if field != gaugeField {
		data = data.number(2, cumulative)
	}
	if field == sumField {
		data = data.number(3, 1) // monotonic
	}
	m.scope = m.scope.message(2, message{}.text(1, family.GetName()).text(2, family.GetHelp()).message(field, data))
	m.points += count
}

// single returns a NumberDataPoint, or nil if the metric has no single value.
func (m *Metrics) single(one *dto.Metric, cumulative bool) message {
	value, ok := number(one)
	if !ok {
		return nil
	}
	begin := uint64(0)
	if cumulative {
		begin = m.begin
	}
	return append(message{}.fixed(2, begin).fixed(3, m.time).double(4, value), labels(7, one)...)
}

// histogram returns an ExponentialHistogramDataPoint, or nil if the metric is no native histogram of integers.
func (m *Metrics) histogram(one *dto.Metric) message {
	h := one.GetHistogram()
	if h == nil || h.Schema == nil || len(h.GetNegativeSpan()) > 0 || h.SampleCountFloat != nil {
		return nil
	}
	first, counts := dense(h)
	buckets := message{}.signed(1, first)
	var packed message
	for _, n := range counts {
		packed = binary.AppendUvarint(packed, n)
	}
	buckets = buckets.message(2, packed)
	return append(labels(1, one), message{}.fixed(2, m.begin).fixed(3, m.time).fixed(4, h.GetSampleCount()).double(5, h.GetSampleSum()).
		signed(6, h.GetSchema()).fixed(7, h.GetZeroCount()).message(8, buckets).double(14, h.GetZeroThreshold())...)
}

// mostBuckets is more than the buckets of any run time: 8 for each power of 2 from 1 ns to centuries.
const mostBuckets = 1024

// dense returns the counts of the buckets from the first one on, without gaps, and the index of the first one. Bucket i of Prometheus is
// bucket i-1 of OpenTelemetry.
func dense(h *dto.Histogram) (first int32, counts []uint64) {
	at, count, deltas := int32(0), int64(0), h.GetPositiveDelta()
	for i, span := range h.GetPositiveSpan() {
		if i == 0 {
			first = span.GetOffset() - 1
		} else {
			at += span.GetOffset()
		}
		for range span.GetLength() {
			if len(deltas) == 0 || int(at) < len(counts) || at >= mostBuckets {
				return first, counts
			}
			count, deltas = count+deltas[0], deltas[1:]
			counts = append(counts, make([]uint64, int(at)+1-len(counts))...)
			counts[at] = uint64(count)
			at++
		}
	}
	return first, counts
}

// labels returns the labels of a metric as attributes.
func labels(field int, one *dto.Metric) message {
	var all []Attribute
	for _, l := range one.GetLabel() {
		if l.GetValue() != "" { // as in Prometheus, where a label without a value is no label
			all = append(all, Attribute{l.GetName(), l.GetValue()})
		}
	}
	return attributes(field, all)
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
