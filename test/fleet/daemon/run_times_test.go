package daemon

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/serve/metrics"
	counts "github.com/bperf/bperf/internal/serve/node"
)

// TestRunTimes asks Prometheus for quantiles of the run times of a BPF program. The run times are made up, because not every kernel lets bperf
// count inside programs: TestServeInside of internal/cli counts real ones.
func TestRunTimes(t *testing.T) { withEach(t, runTimes) }

func runTimes(t *testing.T, r release) {
	var runs atomic.Uint64
	read := func() (*counts.Snapshot, error) { // at each reading 90 more runs of 1 µs, and 10 of 1 ms
		p := counts.InProgram{ID: 1, Name: "handler", Type: "kprobe", Tag: "0123456789abcdef"}
		n := runs.Add(1)
		p.Times.Buckets[count.BucketOf(1000)] = 90 * n
		p.Times.Buckets[count.BucketOf(1_000_000)] = 10 * n
		return &counts.Snapshot{Time: time.Now(), Inside: []counts.InProgram{p}}, nil
	}
	server := httptest.NewServer(promhttp.HandlerFor(metrics.New(read, 1000), promhttp.HandlerOpts{}))
	defer server.Close()
	e := r.start(t, fmt.Sprintf("scrape_configs: [{job_name: x, scrape_interval: 1s, static_configs: [{targets: ['%s']}]}]\n",
		strings.TrimPrefix(server.URL, "http://")))
	const rate = `rate(bperf_bpf_program_run_duration_seconds{name="handler"}[1m])`
	for _, test := range []struct {
		quantile    string
		least, most float64
	}{{"0.5", 0.8e-6, 1.25e-6}, {"0.99", 0.8e-3, 1.25e-3}} {
		found := e.awaitSeries(1, fmt.Sprintf(`histogram_quantile(%s, %s) > 0`, test.quantile, rate))
		if v, err := found[0].Value.value(); err != nil || v < test.least || v > test.most {
			t.Errorf("the quantile %s is %g, not from %g to %g (%v)", test.quantile, v, test.least, test.most, err)
		}
	}
	found := e.awaitSeries(1, `histogram_fraction(0, 0.0001, `+rate+`) > 0`)
	if v, err := found[0].Value.value(); err != nil || v < 0.899 || v > 0.901 {
		t.Errorf("%g of the runs take less than 0.1 ms, not 0.9 (%v)", v, err)
	}
}
