package serve

import (
	"github.com/bperf/bperf/internal/serve/metrics"
	"github.com/bperf/bperf/internal/serve/remote"
)

// Metrics of sessions. The commands are those of a fixed list.
var (
	sessionsDesc        = metrics.NewDesc("bperf_sessions", "Sessions that run for clients elsewhere.", "command")
	sessionsStartedDesc = metrics.NewDesc("bperf_sessions_started_total", "Sessions that began.", "command")
	sessionsEndedDesc   = metrics.NewDesc("bperf_sessions_ended_total", "Sessions that ended, and how.", "command", "outcome")
	sessionsRefusedDesc = metrics.NewDesc("bperf_sessions_refused_total",
		"Requests for a session that asked for something that is not allowed, or came when bperf was ending.")
	sessionsCPUDesc = metrics.NewDesc("bperf_sessions_cpu_seconds_total", "CPU time of the processes of sessions, user and system.")
)

// exportSessions exports the numbers of sessions from afar.
func exportSessions(s *metrics.Scrape, all remote.Stats) {
	running := make(map[string]int)
	for _, r := range all.Running {
		running[r.Command]++
	}
	for command, started := range all.Started {
		s.Gauge(sessionsDesc, float64(running[command]), command)
		s.Counter(sessionsStartedDesc, float64(started), command)
		for outcome, n := range all.Ended[command] {
			s.Counter(sessionsEndedDesc, float64(n), command, remote.Outcome(outcome).String())
		}
	}
	s.Counter(sessionsRefusedDesc, float64(all.Refused))
	s.Counter(sessionsCPUDesc, all.CPUTime.Seconds())
}
