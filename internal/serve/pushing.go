package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bperf/bperf/internal/serve/container"
	"github.com/bperf/bperf/internal/serve/profiles"
	"github.com/bperf/bperf/internal/serve/push"
	"github.com/bperf/bperf/internal/serve/settings"
	"github.com/bperf/bperf/internal/userfile"
)

// flushTime is the time that the queues have at the end to send what waits.
const flushTime = 5 * time.Second

// pushing takes the profile of the machine and sends it to servers, if there are any.
type pushing struct {
	log      *slog.Logger
	profiler *profiles.Profiler
	queues   []*push.Queue
}

// openPushing opens the queues of the settings. It returns nil if the settings ask for no profile.
func openPushing(s *settings.Settings, log *slog.Logger, find func(uint64) (container.Name, bool)) (*pushing, error) {
	if !s.Profile.On() {
		return nil, nil
	}
	p := &pushing{log: log}
	var err error
	p.profiler, err = profiles.New(profiles.Config{Events: s.Profile.Event, Frequency: s.Profile.Frequency, OffCPU: s.Profile.OffCPU,
		Every: s.Profile.Every, Container: find, Each: p.push, Log: log, Keep: keep(s.Budget.Limits.Memory)})
	if err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("find the name of this machine: %w", err)
	}
	node := push.Node{Name: host}
	if id, err := userfile.Read("/etc/machine-id", 64); err == nil { // some containers have none
		node.ID = strings.TrimSpace(string(id.Data))
	}
	servers := map[string]bool{} // by what tells their metrics apart
	for i, c := range s.Push {
		q, err := push.Open(c, node, log)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("push: server %d: %w", i+1, err), p.close())
		}
		p.queues = append(p.queues, q)
		server := q.Stats().Kind + " " + q.Stats().URL
		if servers[server] {
			return nil, errors.Join(fmt.Errorf("push: %s is there twice", server), p.close())
		}
		servers[server] = true
	}
	return p, nil
}

// keep returns the bytes of windows that are kept: an eighth of the memory budget, at most the default.
func keep(memory uint64) uint64 {
	if memory == 0 {
		return profiles.DefaultKeep
	}
	return min(memory/8, profiles.DefaultKeep)
}

// run profiles and pushes until the context ends, and sends what waits then.
func (p *pushing) run(ctx context.Context) error {
	p.profiler.Run(ctx)
	return p.close()
}

// close ends the queues, all at the same time.
func (p *pushing) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	errs := make([]error, len(p.queues))
	var ended sync.WaitGroup
	for i, q := range p.queues {
		ended.Go(func() { errs[i] = q.Close(ctx) })
	}
	ended.Wait()
	return errors.Join(errs...)
}

// push queues the profiles of a window. The queues count what they lose.
func (p *pushing) push(w *profiles.Window) {
	b := push.Batch{Start: w.Start, Length: w.Duration}
	for _, part := range w.Parts {
		b.Profiles = append(b.Profiles, push.Profile{Container: part.Name, Profile: part.Profile})
	}
	for _, q := range p.queues {
		if err := q.Push(b); err != nil {
			p.log.Warn("profiles were lost", "error", err)
		}
	}
}

// stats returns the numbers of the queues.
func (p *pushing) stats() []push.Stats {
	var all []push.Stats
	for _, q := range p.queues {
		all = append(all, q.Stats())
	}
	return all
}

// windows returns the last profiles, and why there is none at the moment.
func (p *pushing) windows() ([]*profiles.Window, error) {
	return p.profiler.Windows(), p.profiler.Err()
}

// Metrics of pushing. The URL has no secrets.
var (
	pushLabels      = []string{"kind", "url"}
	profilingDesc   = prometheus.NewDesc("bperf_profiling", "Whether the profile of the machine is being taken.", nil, nil)
	pushedDesc      = prometheus.NewDesc("bperf_push_items_total", "Profiles, or values of metrics, that the server accepted.", pushLabels, nil)
	pushedBytesDesc = prometheus.NewDesc("bperf_push_bytes_total", "Bytes of requests that the server accepted, compressed.", pushLabels, nil)
	retriesDesc     = prometheus.NewDesc("bperf_push_retries_total", "Requests that failed and were repeated.", pushLabels, nil)
	droppedDesc     = prometheus.NewDesc("bperf_push_dropped_items_total", "Profiles, or values of metrics, that did not reach the server.", append(pushLabels, "reason"), nil)
	waitingDesc     = prometheus.NewDesc("bperf_push_queue_bytes", "Memory of the requests that wait.", pushLabels, nil)
	lastSuccessDesc = prometheus.NewDesc("bperf_push_last_success_timestamp_seconds", "When the server last accepted a request.", pushLabels, nil)
)

// Describe sends the descriptions of the metrics.
func (p *pushing) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{profilingDesc, pushedDesc, pushedBytesDesc, retriesDesc, droppedDesc, waitingDesc, lastSuccessDesc} {
		out <- d
	}
}

// Collect sends the metrics.
func (p *pushing) Collect(out chan<- prometheus.Metric) {
	running := 1.0
	if p.profiler.Err() != nil {
		running = 0
	}
	out <- prometheus.MustNewConstMetric(profilingDesc, prometheus.GaugeValue, running)
	for _, q := range p.queues {
		s := q.Stats()
		send := func(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
			out <- prometheus.MustNewConstMetric(d, kind, value, append([]string{s.Kind, s.URL}, labels...)...)
		}
		send(pushedDesc, prometheus.CounterValue, float64(s.Accepted))
		send(pushedBytesDesc, prometheus.CounterValue, float64(s.Bytes))
		send(retriesDesc, prometheus.CounterValue, float64(s.Retries))
		for why := range s.Dropped {
			send(droppedDesc, prometheus.CounterValue, float64(s.Dropped[why].Items), push.Reason(why).String())
		}
		send(waitingDesc, prometheus.GaugeValue, float64(s.WaitingBytes))
		if !s.LastSuccess.IsZero() {
			send(lastSuccessDesc, prometheus.GaugeValue, float64(s.LastSuccess.UnixMilli())/1000)
		}
	}
}
