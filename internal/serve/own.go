package serve

import (
	"runtime"

	"github.com/bperf/bperf/internal/serve/metrics"
)

// Metrics of the daemon itself. Prometheus and its exporters have the same of reading the configuration.
var (
	buildDesc         = metrics.NewDesc("bperf_build_info", "The version of bperf.", "version", "goversion", "goarch")
	refusedDesc       = metrics.NewDesc("bperf_http_refused_total", "Requests and connections that bperf refused.", "reason")
	reloadedDesc      = metrics.NewDesc("bperf_config_last_reload_successful", "Whether the last attempt to read the configuration succeeded.")
	reloadSuccessDesc = metrics.NewDesc("bperf_config_last_reload_success_timestamp_seconds", "When the configuration was last read with success.")
)

// export exports what the daemon knows of itself.
func (d *Daemon) export(s *metrics.Scrape) {
	s.Gauge(buildDesc, 1, d.config.Version, runtime.Version(), runtime.GOARCH)
	metrics.Runtime(s)
	for reason, n := range d.server.Refused() {
		s.Counter(refusedDesc, float64(n), reason)
	}
	s.Whether(reloadedDesc, d.reloads.successful.Load())
	s.Gauge(reloadSuccessDesc, float64(d.reloads.time.Load()))
	d.budget.export(s)
	exportSessions(s, d.remote.Stats())
	d.servers.export(s)
	if d.kubelet != nil {
		exportNames(s, d.kubelet.Stats())
	}
	if d.profile != nil {
		d.profile.export(s)
	}
}
