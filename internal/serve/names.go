package serve

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/bperf/bperf/internal/serve/kubelet"
)

// names exports the numbers of the requests to the kubelet. It implements prometheus.Collector.
type names struct{ *kubelet.Client }

// Metrics of the requests to the kubelet.
var (
	kubeletRequestsDesc = prometheus.NewDesc("bperf_kubelet_requests_total", "Requests to the kubelet for the names of pods.", []string{"outcome"}, nil)
	kubeletSuccessDesc  = prometheus.NewDesc("bperf_kubelet_last_success_timestamp_seconds", "When the kubelet last gave the names of pods.", nil, nil)
)

// Describe sends the descriptions of the metrics.
func (n names) Describe(out chan<- *prometheus.Desc) {
	out <- kubeletRequestsDesc
	out <- kubeletSuccessDesc
}

// Collect sends the metrics.
func (n names) Collect(out chan<- prometheus.Metric) {
	s := n.Stats()
	out <- prometheus.MustNewConstMetric(kubeletRequestsDesc, prometheus.CounterValue, float64(s.Succeeded), "succeeded")
	out <- prometheus.MustNewConstMetric(kubeletRequestsDesc, prometheus.CounterValue, float64(s.Failed), "failed")
	if !s.LastSuccess.IsZero() {
		out <- prometheus.MustNewConstMetric(kubeletSuccessDesc, prometheus.GaugeValue, float64(s.LastSuccess.UnixMilli())/1000)
	}
}
