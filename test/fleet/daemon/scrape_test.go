package daemon

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bperf/bperf/test/engines"
	"github.com/bperf/bperf/test/fleet/pod"
	"github.com/bperf/bperf/test/fleet/server"
	"github.com/bperf/bperf/test/require"
)

// ofPod selects the series of a pod's container.
func ofPod(p *running) string {
	return fmt.Sprintf(`container_id="%s",pod_uid="%s",namespace="%s",pod="%s",container="%s"`, p.ID, p.UID, pod.Namespace, p.Name, pod.Container)
}

// TestPrometheus has Prometheus scrape a node over mutual TLS, and asks it for the counts of a container.
func TestPrometheus(t *testing.T) { withEach(t, scrape) }

func scrape(t *testing.T, r release) {
	n := startNode(t, "[page-faults, nosuch, task-clock]")
	p := startPod(t, "web-0", 16)
	n.addNames(p)
	e := r.start(t, n.job())
	e.awaitSeries(1, `up{job="bperf"} == 1`)
	e.awaitSeries(1, `up{job="stranger"} == 0`)
	e.awaitSeries(1, `rate(bperf_container_events_total{event="page-faults",`+ofPod(p)+`}[1m]) > 0`)
	e.awaitSeries(1, `bperf_container_event_running_seconds_total{event="task-clock",`+ofPod(p)+`} > 0`)
	e.awaitSeries(1, `bperf_event_supported{event="nosuch",reason=~".*there is no event nosuch"} == 0`)
	if got := e.query(`{__name__=~"bperf_(container|node)_event.*",event="nosuch"}`); len(got) > 0 {
		t.Errorf("an event that is not counted is not absent: %v", got)
	}
	// Summed up, because other daemons on this machine have such programs, too.
	e.awaitSeries(1, `sum(rate(bperf_bpf_program_run_seconds_total{name="on_switch"}[1m]))
		/ sum(rate(bperf_bpf_program_runs_total{name="on_switch"}[1m])) > 0`)
	p.end()
	e.awaitSeries(1, `bperf_container_cpu_seconds_total{`+ofPod(p)+`}`) // stays a while

	promtool, err := engines.Get(engines.Promtool)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(promtool, "check", "metrics")
	cmd.Stdin = strings.NewReader(n.metrics())
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}

// TestPushedMetrics has Prometheus take the metrics that a node pushes by OTLP. They have the names and labels of those that it scrapes.
func TestPushedMetrics(t *testing.T) {
	e := newest.start(t, "")
	n := startNode(t, `[page-faults]
push: [{kind: otlp-metrics, url: "http://`+e.address+`/api/v1/otlp"}]
metrics_every: 1s`)
	p := startPod(t, "web-0", 16)
	n.addNames(p)
	e.awaitSeries(1, `rate(bperf_container_events_total{event="page-faults",job="bperf",`+ofPod(p)+`}[1m]) > 0`)
	e.awaitSeries(1, `bperf_event_supported{event="page-faults"} == 1`)
	e.awaitSeries(1, `target_info{job="bperf"}`)
}

// TestVictoriaMetrics has VictoriaMetrics scrape a node, with the configuration of Prometheus.
func TestVictoriaMetrics(t *testing.T) {
	victoria, err := engines.Get(engines.VictoriaMetrics)
	if err != nil {
		t.Fatal(err)
	}
	n := startNode(t, "[page-faults, nosuch]")
	p := startPod(t, "web-0", 16)
	n.addNames(p)
	config := filepath.Join(t.TempDir(), "scrape.yml")
	write(t, config, n.job())
	e := &engine{t, "127.0.0.1:" + server.FreePort(t)}
	server.Start(t, exec.Command(victoria, "-promscrape.config="+config, "-storageDataPath="+t.TempDir(), "-httpListenAddr="+e.address,
		"-search.latencyOffset=0s"))
	e.awaitSeries(1, `up{job="bperf"} == 1`)
	e.awaitSeries(1, `up{job="stranger"} == 0`)
	e.awaitSeries(1, `rate(bperf_container_events_total{event="page-faults",`+ofPod(p)+`}[1m]) > 0`)
	if got := e.query(`{__name__=~"bperf_(container|node)_event.*",event="nosuch"}`); len(got) > 0 {
		t.Errorf("an event that is not counted is not absent: %v", got)
	}
}

// TestRestart kills the daemon again and again. rate() takes a counter that fell for one that began at 0, so all increases that it sees
// must be no more than what the container really did.
func TestRestart(t *testing.T) {
	n := startNode(t, "[page-faults]")
	p := startPod(t, "web-0", 16)
	n.addNames(p)
	e := oldest.start(t, n.job())
	counter := `bperf_container_events_total{event="page-faults",` + ofPod(p) + `}`
	e.awaitSeries(1, counter+" > 20000") // so high that it falls when it begins anew
	kills := 3
	if require.Long() {
		kills = 50
	}
	for range kills {
		n.started.Kill()
		n.start()
		e.awaitSeries(1, fmt.Sprintf("timestamp(%s) > %d", counter, time.Now().Unix()+1))
	}
	e.awaitSeries(1, "resets("+counter+"[1h]) > 0")
	n.started.Kill()
	e.awaitSeries(1, `up{job="bperf"} == 0`)
	real := float64(p.end())
	all := e.query(counter + "[1h]")
	if len(all) != 1 {
		t.Fatalf("%d series", len(all))
	}
	var seen, last float64
	for _, s := range all[0].Values {
		v, err := s.value()
		if err != nil {
			t.Fatal(err)
		}
		if v < last {
			last = 0
		}
		seen, last = seen+v-last, v
	}
	if seen < 20000 || seen > real {
		t.Errorf("Prometheus saw %g page faults of %g", seen, real)
	}
	t.Logf("Prometheus saw %g page faults of %g", seen, real)
}
