package serve

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/bperf/bperf/internal/serve/remote"
)

// sessions exports the numbers of sessions from afar. It implements prometheus.Collector.
type sessions struct{ read func() remote.Stats }

// Metrics of sessions. The commands are those of a fixed list.
var (
	sessionsDesc        = prometheus.NewDesc("bperf_sessions", "Sessions that run for clients elsewhere.", []string{"command"}, nil)
	sessionsStartedDesc = prometheus.NewDesc("bperf_sessions_started_total", "Sessions that began.", []string{"command"}, nil)
	sessionsEndedDesc   = prometheus.NewDesc("bperf_sessions_ended_total", "Sessions that ended, and how.", []string{"command", "outcome"}, nil)
	sessionsRefusedDesc = prometheus.NewDesc("bperf_sessions_refused_total",
		"Requests for a session that asked for something that is not allowed, or came when bperf was ending.", nil, nil)
	sessionsCPUDesc = prometheus.NewDesc("bperf_sessions_cpu_seconds_total", "CPU time of the processes of sessions, user and system.", nil, nil)
)

// Describe sends the descriptions of the metrics.
func (s sessions) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{sessionsDesc, sessionsStartedDesc, sessionsEndedDesc, sessionsRefusedDesc, sessionsCPUDesc} {
		out <- d
	}
}

// Collect sends the metrics.
func (s sessions) Collect(out chan<- prometheus.Metric) {
	all := s.read()
	send := func(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, kind, value, labels...)
	}
	running := make(map[string]int)
	for _, r := range all.Running {
		running[r.Command]++
	}
	for command, started := range all.Started {
		send(sessionsDesc, prometheus.GaugeValue, float64(running[command]), command)
		send(sessionsStartedDesc, prometheus.CounterValue, float64(started), command)
		for outcome, n := range all.Ended[command] {
			send(sessionsEndedDesc, prometheus.CounterValue, float64(n), command, remote.Outcome(outcome).String())
		}
	}
	send(sessionsRefusedDesc, prometheus.CounterValue, float64(all.Refused))
	send(sessionsCPUDesc, prometheus.CounterValue, all.CPUTime.Seconds())
}
