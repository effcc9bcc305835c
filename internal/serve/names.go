package serve

import (
	"github.com/bperf/bperf/internal/serve/kubelet"
	"github.com/bperf/bperf/internal/serve/metrics"
)

// Metrics of the requests to the kubelet.
var (
	kubeletRequestsDesc = metrics.NewDesc("bperf_kubelet_requests_total", "Requests to the kubelet for the names of pods.", "outcome")
	kubeletSuccessDesc  = metrics.NewDesc("bperf_kubelet_last_success_timestamp_seconds", "When the kubelet last gave the names of pods.")
)

// exportNames exports the numbers of the requests to the kubelet.
func exportNames(s *metrics.Scrape, requests kubelet.Stats) {
	s.Counter(kubeletRequestsDesc, float64(requests.Succeeded), "succeeded")
	s.Counter(kubeletRequestsDesc, float64(requests.Failed), "failed")
	s.Time(kubeletSuccessDesc, requests.LastSuccess)
}
