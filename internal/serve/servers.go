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

	"github.com/bperf/bperf/internal/serve/metrics"
	"github.com/bperf/bperf/internal/serve/push"
	"github.com/bperf/bperf/internal/serve/settings"
	"github.com/bperf/bperf/internal/userfile"
)

// flushTime is the time that the queues have at the end to send what waits.
const flushTime = 5 * time.Second

// servers are the queues of those that profiles or metrics are pushed to.
type servers struct {
	log    *slog.Logger
	queues []*push.Queue
}

// openServers opens the queues of the settings.
func openServers(s *settings.Settings, log *slog.Logger) (*servers, error) {
	all := &servers{log: log}
	if len(s.Push) == 0 {
		return all, nil
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("find the name of this machine: %w", err)
	}
	node := push.Node{Name: host}
	if id, err := userfile.Read("/etc/machine-id", 64); err == nil { // some containers have none
		node.ID = strings.TrimSpace(string(id.Data))
	}
	known := map[string]bool{} // by kind and URL, which are the labels of their metrics
	for i, c := range s.Push {
		q, err := push.Open(c, node, log)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("push: server %d: %w", i+1, err), all.close())
		}
		all.queues = append(all.queues, q)
		server := q.Stats().Kind + " " + q.Stats().URL
		if known[server] {
			return nil, errors.Join(fmt.Errorf("push: %s is there twice", server), all.close())
		}
		known[server] = true
	}
	return all, nil
}

// close sends what waits and ends the queues, all at the same time. Its error is the servers' fault, and counted.
func (all *servers) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	errs := make([]error, len(all.queues))
	var ended sync.WaitGroup
	for i, q := range all.queues {
		ended.Go(func() { errs[i] = q.Close(ctx) })
	}
	ended.Wait()
	return errors.Join(errs...)
}

// push queues a batch for the servers that get metrics, or else for those that get profiles. The queues count what they lose.
func (all *servers) push(b push.Batch, metrics bool) {
	for _, q := range all.queues {
		if q.Metrics() != metrics {
			continue
		}
		if err := q.Push(b); err != nil {
			all.log.Warn("a push was lost", "error", err)
		}
	}
}

// stats returns the numbers of the queues.
func (all *servers) stats() (stats []push.Stats) {
	for _, q := range all.queues {
		stats = append(stats, q.Stats())
	}
	return stats
}

// Metrics of pushes. The URL has no secrets.
var (
	pushedDesc      = metrics.NewDesc("bperf_push_items_total", "Profiles, or values of metrics, that the server accepted.", "kind", "url")
	pushedBytesDesc = metrics.NewDesc("bperf_push_bytes_total", "Bytes of requests that the server accepted, compressed.", "kind", "url")
	retriesDesc     = metrics.NewDesc("bperf_push_retries_total", "Requests that failed and were repeated.", "kind", "url")
	droppedDesc     = metrics.NewDesc("bperf_push_dropped_items_total", "Profiles, or values of metrics, that did not reach the server.", "kind", "url", "reason")
	waitingDesc     = metrics.NewDesc("bperf_push_queue_bytes", "Memory of the requests that wait.", "kind", "url")
	lastSuccessDesc = metrics.NewDesc("bperf_push_last_success_timestamp_seconds", "When the server last accepted a request.", "kind", "url")
)

// export exports the numbers of the queues.
func (all *servers) export(s *metrics.Scrape) {
	for _, q := range all.stats() {
		s.Counter(pushedDesc, float64(q.Accepted), q.Kind, q.URL)
		s.Counter(pushedBytesDesc, float64(q.Bytes), q.Kind, q.URL)
		s.Counter(retriesDesc, float64(q.Retries), q.Kind, q.URL)
		for why := range q.Dropped {
			s.Counter(droppedDesc, float64(q.Dropped[why].Items), q.Kind, q.URL, push.Reason(why).String())
		}
		s.Gauge(waitingDesc, float64(q.WaitingBytes), q.Kind, q.URL)
		s.Time(lastSuccessDesc, q.LastSuccess, q.Kind, q.URL)
	}
}

// pushMetrics pushes the metrics at an interval until the context ends, and then once more.
func (d *Daemon) pushMetrics(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
		g := d.current.Load()
		if g == nil { // nothing is counted yet
			continue
		}
		families, err := g.metrics.Gather()
		if err != nil {
			d.log.Warn("no metrics to push", "error", err)
			continue
		}
		d.servers.push(push.Batch{Start: time.Now().Add(-every), Length: every, Began: g.began, Metrics: families}, true)
	}
}
