package otlp

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"

	"github.com/bperf/bperf/test/golden"
)

// family returns a metric of a kind, with a value for each label.
func family(name string, kind dto.MetricType, values map[string]float64, labels ...string) *dto.MetricFamily {
	f := &dto.MetricFamily{Name: &name, Help: proto.String("Help of " + name + "."), Type: &kind}
	for _, label := range labels {
		one := &dto.Metric{Label: []*dto.LabelPair{{Name: proto.String("pod"), Value: &label}, {Name: proto.String("empty"), Value: proto.String("")}}}
		value := values[label]
		switch kind {
		case dto.MetricType_COUNTER:
			one.Counter = &dto.Counter{Value: &value}
		case dto.MetricType_GAUGE:
			one.Gauge = &dto.Gauge{Value: &value}
		case dto.MetricType_UNTYPED:
			one.Untyped = &dto.Untyped{Value: &value}
		case dto.MetricType_SUMMARY:
			one.Summary = &dto.Summary{SampleSum: &value}
		}
		f.Metric = append(f.Metric, one)
	}
	return f
}

// histogram returns a native histogram whose buckets have these counts.
func histogram(t *testing.T, zero uint64, buckets map[int]int64) *dto.Metric {
	t.Helper()
	all := zero
	for _, n := range buckets {
		all += uint64(n)
	}
	desc := prometheus.NewDesc("times", "Help of times.", nil, prometheus.Labels{"pod": "a"})
	h, err := prometheus.NewConstNativeHistogram(desc, all, 0.25, buckets, nil, zero, 3, 1e-10, start)
	if err != nil {
		t.Fatal(err)
	}
	var m dto.Metric
	if err := h.Write(&m); err != nil {
		t.Fatal(err)
	}
	return &m
}

// TestDense has spans that no histogram of this program has.
func TestDense(t *testing.T) {
	span := func(offset int32, length uint32) *dto.BucketSpan {
		return &dto.BucketSpan{Offset: &offset, Length: &length}
	}
	for _, test := range []struct {
		h      *dto.Histogram
		first  int32
		counts []uint64
	}{
		{&dto.Histogram{}, 0, nil},
		{&dto.Histogram{PositiveSpan: []*dto.BucketSpan{span(3, 2), span(1, 1)}, PositiveDelta: []int64{5, -1, 2}}, 2, []uint64{5, 4, 0, 6}},
		{&dto.Histogram{PositiveSpan: []*dto.BucketSpan{span(3, 2), span(-9, 1)}, PositiveDelta: []int64{5, -1, 2}}, 2, []uint64{5, 4}},
		{&dto.Histogram{PositiveSpan: []*dto.BucketSpan{span(0, 1), span(1<<30, 1)}, PositiveDelta: []int64{5, 1}}, -1, []uint64{5}},
		{&dto.Histogram{PositiveSpan: []*dto.BucketSpan{span(0, 1<<31)}, PositiveDelta: []int64{5, 1}}, -1, []uint64{5, 6}},
	} {
		if first, counts := dense(test.h); first != test.first || !slices.Equal(counts, test.counts) {
			t.Errorf("%v: %d, %d", test.h, first, counts)
		}
	}
}

func TestMetrics(t *testing.T) {
	m := NewMetrics([]Attribute{{"service.name", "bperf"}, {"host.name", "evil\n\xff"}}, start, start.Add(time.Minute))
	for _, f := range []*dto.MetricFamily{
		family("events_total", dto.MetricType_COUNTER, map[string]float64{"a": 12, "evil\x1b": 1 << 60}, "a", "b", "evil\x1b"),
		family("level", dto.MetricType_GAUGE, map[string]float64{"a": -0.5, "b": math.Inf(1)}, "a", "b"),
		family("other", dto.MetricType_UNTYPED, map[string]float64{"": 3}, ""),
		{Name: proto.String("times"), Help: proto.String("Help of times."), Type: dto.MetricType_HISTOGRAM.Enum(), Metric: []*dto.Metric{
			histogram(t, 1, map[int]int64{-20: 3, -18: 2, 5: 1}), histogram(t, 0, map[int]int64{1: 4}), histogram(t, 0, nil), {Histogram: &dto.Histogram{}}}},
		family("summary", dto.MetricType_SUMMARY, nil, "a"),
		family("nothing", dto.MetricType_GAUGE, nil),
	} {
		m.Add(f, f.Metric)
	}
	got, err := decodeMetrics(m.Bytes())
	if err != nil {
		t.Fatalf("%v\n%s", err, dump(m.Bytes()))
	}
	golden.Compare(t, "testdata/metrics.txt", got)
	if m.Points() != 9 {
		t.Errorf("%d points", m.Points())
	}
	if size := m.Size(); size > len(m.Bytes()) || size < len(m.Bytes())*9/10 {
		t.Errorf("the size is %d of %d", size, len(m.Bytes()))
	}
}

// decodeMetrics returns a request with metrics as text.
func decodeMetrics(data []byte) (text string, err error) {
	defer catch(&err)
	var out strings.Builder
	for _, resource := range must(parse(data)) {
		check(resource.number == 1, "field %d of the request", resource.number)
		parts := must(parse(resource.data))
		for _, a := range must(parse(one(parts, 1).data)) {
			check(a.number == 1, "field %d of a resource", a.number)
			fmt.Fprintf(&out, "resource %s\n", keyValue(a.data))
		}
		for _, f := range must(parse(one(parts, 2).data)) {
			switch f.number {
			case 1:
				fmt.Fprintf(&out, "scope %s\n", one(must(parse(f.data)), 1).data)
			case 2:
				metric(&out, f.data)
			default:
				check(false, "field %d of a scope", f.number)
			}
		}
	}
	return out.String(), nil
}

func metric(out *strings.Builder, data []byte) {
	fields := must(parse(data))
	fmt.Fprintf(out, "metric %s %q", one(fields, 1).data, one(fields, 2).data)
	if exponential := one(fields, 10); exponential.data != nil {
		exponentialHistogram(out, must(parse(exponential.data)))
		return
	}
	gauge, sum := one(fields, 5), one(fields, 7)
	check((gauge.data == nil) != (sum.data == nil), "a metric has no kind, or two")
	if sum.data != nil {
		kind := must(parse(sum.data))
		fmt.Fprintf(out, " sum temporality %d monotonic %d", one(kind, 2).value, one(kind, 3).value)
	}
	out.WriteString("\n")
	for _, p := range must(parse(append(gauge.data, sum.data...))) {
		if p.number != 1 {
			continue
		}
		point := must(parse(p.data))
		fmt.Fprintf(out, "  %v from %d to %d", math.Float64frombits(one(point, 4).value), one(point, 2).value, one(point, 3).value)
		for _, a := range point {
			if a.number == 7 {
				fmt.Fprintf(out, " %s", keyValue(a.data))
			}
		}
		out.WriteString("\n")
	}
}

func exponentialHistogram(out *strings.Builder, fields []field) {
	fmt.Fprintf(out, " exponential temporality %d\n", one(fields, 2).value)
	zigzag := func(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }
	for _, p := range fields {
		if p.number != 1 {
			continue
		}
		point := must(parse(p.data))
		buckets := must(parse(one(point, 8).data))
		fmt.Fprintf(out, "  %d, sum %v, scale %d, %d up to %v, from %d: % x, from %d to %d %s\n", one(point, 4).value, math.Float64frombits(one(point, 5).value),
			zigzag(one(point, 6).value), one(point, 7).value, math.Float64frombits(one(point, 14).value), zigzag(one(buckets, 1).value), one(buckets, 2).data,
			one(point, 2).value, one(point, 3).value, keyValue(one(point, 1).data))
	}
}

func keyValue(data []byte) string {
	fields := must(parse(data))
	return fmt.Sprintf("%s=%q", one(fields, 1).data, one(must(parse(one(fields, 2).data)), 1).data)
}
