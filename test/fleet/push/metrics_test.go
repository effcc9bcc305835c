package push

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	collector "go.opentelemetry.io/proto/slim/otlp/collector/metrics/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/slim/otlp/metrics/v1"
	resource "go.opentelemetry.io/proto/slim/otlp/resource/v1"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/bperf/bperf/internal/serve/push"
)

// TestMetrics decodes a request with metrics with OpenTelemetry's own types, and compares it with the metrics.
func TestMetrics(t *testing.T) {
	got := new(collector.ExportMetricsServiceRequest)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		receive(t, r, got)
		if r.URL.Path != "/v1/metrics" {
			t.Errorf("pushed to %s", r.URL.Path)
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	defer server.Close()

	registry := prometheus.NewRegistry()
	events := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "bperf_node_events_total", Help: "Events on a CPU."}, []string{"event", "cpu"})
	level := prometheus.NewGauge(prometheus.GaugeOpts{Name: "bperf_budget_level", Help: "What is given up."})
	registry.MustRegister(events, level)
	events.WithLabelValues("cycles", "0").Add(12)
	events.WithLabelValues("cycles", "1").Add(0)
	level.Set(2)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	q, err := push.Open(push.Config{Kind: push.MetricsKind, URL: server.URL}, push.Node{Name: "node1", ID: "abc"}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	end := start.Add(time.Minute)
	if err := q.Push(push.Batch{Start: start, Length: time.Minute, Began: start.Add(-time.Hour), Metrics: families}); err != nil {
		t.Error(err)
	}
	if err := q.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if s := q.Stats(); s.Accepted != 3 {
		t.Errorf("%d values were accepted", s.Accepted)
	}
	point := func(begin time.Time, value float64, attributes ...*common.KeyValue) *otlp.NumberDataPoint {
		p := &otlp.NumberDataPoint{TimeUnixNano: uint64(end.UnixNano()), Value: &otlp.NumberDataPoint_AsDouble{AsDouble: value}, Attributes: attributes}
		if !begin.IsZero() {
			p.StartTimeUnixNano = uint64(begin.UnixNano())
		}
		return p
	}
	began := start.Add(-time.Hour)
	want := &collector.ExportMetricsServiceRequest{ResourceMetrics: []*otlp.ResourceMetrics{{
		Resource: &resource.Resource{Attributes: []*common.KeyValue{text("service.name", "bperf"), text("host.name", "node1"), text("host.id", "abc")}},
		ScopeMetrics: []*otlp.ScopeMetrics{{Scope: &common.InstrumentationScope{Name: "bperf"}, Metrics: []*otlp.Metric{
			{Name: "bperf_budget_level", Description: "What is given up.", Data: &otlp.Metric_Gauge{Gauge: &otlp.Gauge{
				DataPoints: []*otlp.NumberDataPoint{point(time.Time{}, 2)}}}},
			{Name: "bperf_node_events_total", Description: "Events on a CPU.", Data: &otlp.Metric_Sum{Sum: &otlp.Sum{
				IsMonotonic: true, AggregationTemporality: otlp.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE,
				DataPoints: []*otlp.NumberDataPoint{point(began, 12, text("cpu", "0"), text("event", "cycles")),
					point(began, 0, text("cpu", "1"), text("event", "cycles"))}}}},
		}}},
	}}}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func text(key, value string) *common.KeyValue {
	return &common.KeyValue{Key: key, Value: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: value}}}
}
