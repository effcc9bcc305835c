package otlp

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

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

func TestMetrics(t *testing.T) {
	m := NewMetrics([]Attribute{{"service.name", "bperf"}, {"host.name", "evil\n\xff"}}, start, start.Add(time.Minute))
	for _, f := range []*dto.MetricFamily{
		family("events_total", dto.MetricType_COUNTER, map[string]float64{"a": 12, "evil\x1b": 1 << 60}, "a", "b", "evil\x1b"),
		family("level", dto.MetricType_GAUGE, map[string]float64{"a": -0.5, "b": math.Inf(1)}, "a", "b"),
		family("other", dto.MetricType_UNTYPED, map[string]float64{"": 3}, ""),
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
	if m.Points() != 6 {
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

func keyValue(data []byte) string {
	fields := must(parse(data))
	return fmt.Sprintf("%s=%q", one(fields, 1).data, one(must(parse(one(fields, 2).data)), 1).data)
}
