package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bperf/bperf/test/binaries"
	"github.com/bperf/bperf/test/fleet/pod"
	"github.com/bperf/bperf/test/fleet/server"
	"github.com/bperf/bperf/test/guest/boot"
)

// fleetPatience is the time after which a test of a fleet gives up. It only ends a hang.
const fleetPatience = 30 * time.Minute

// fleet is a number of guests that run bperf serve.
type fleet struct {
	*node  // has their certificates
	guests []*guest
}

// guest is a machine with a PMU, pods and bperf serve.
type guest struct {
	port   int // of 127.0.0.1, which leads to bperf
	pods   []*guestPod
	output bytes.Buffer  // to be read when it has ended
	ended  chan struct{} // closed when it has ended
	err    error         // why it ended
}

// guestPod is a pod of a guest, as the program of the guest reads it.
type guestPod struct {
	*pod.Pod
	Pages int
}

// TestFleet plants a container that is unlike its eight peers in one of three guests, and has Prometheus find it by the rules for cycles
// per instruction. The emulator takes a cycle for each instruction, so here the rules get page faults in place of cycles. They also get no
// lower limit of CPU time, because guests are slow: their containers take little of it in a second of Prometheus. Then bperf top shows the
// containers of all guests.
func TestFleet(t *testing.T) {
	rules := changeRules(t, [][2]string{
		{`event="cycles"`, `event="page-faults"`},
		{cpuTime + " > 0.25", cpuTime + " > 0"},
		{"for: 10m", "for: 30s"},
	})
	const planted = "web-7d4b9c6f5d-xxxxx"
	pods := []*guestPod{{pod.New(planted), 160}}
	for _, c := range "bcdfghjk" {
		pods = append(pods, &guestPod{pod.New("web-7d4b9c6f5d-xxxx" + string(c)), 16})
	}
	f := startFleet(t, slices.Collect(slices.Chunk(pods, 3)))
	e := oldest.start(t, fmt.Sprintf("rule_files: [%s]\n", rules)+f.job())

	const firing = `ALERTS{alertname="BperfCPIOutlier",alertstate="firing"}`
	const its = `ALERTS{alertname="BperfCPIOutlier",alertstate="firing",pod="` + planted + `"}`
	found := f.awaitSeries(e, 1, its)
	for label, want := range map[string]string{"instance": f.guests[0].address(), "namespace": pod.Namespace, "workload": "web",
		"container": pod.Container} {
		if got := found[0].Metric[label]; got != want {
			t.Errorf("label %s of the alert is %q, want %q", label, got, want)
		}
	}
	// The rules are evaluated again and again, also with further values of each container.
	f.awaitSeries(e, 1, `count_over_time(`+its+`[1h]) >= 30`)
	f.awaitSeries(e, len(pods), `count_over_time(bperf_container_events_total{event="page-faults",pod!=""}[1h]) >= 4`)
	if got := e.query(`count_over_time(` + firing + `[1h])`); len(got) != 1 {
		t.Errorf("alerts: %v", got)
	}
	if got := e.query(`pod:bperf_container_cpi:ratio5m{workload="web"}`); len(got) != len(pods) {
		t.Errorf("%d of %d containers have a ratio: %v", len(got), len(pods), got)
	}
	const cpi = `pod:bperf_container_events:rate5m{event="cycles"} / ignoring (event) pod:bperf_container_events:rate5m{event="instructions"}`
	if got := e.query(`(` + cpi + `) > 0.95 < 1.05`); len(got) != len(pods) {
		t.Errorf("%d of %d containers take a cycle for each instruction: %v", len(got), len(pods), e.query(cpi))
	}
	if testing.Verbose() {
		for _, s := range e.query(`pod:bperf_container_cpi:ratio5m * 1e6`) {
			t.Logf("%s: %s page faults in a million instructions", s.Metric["pod"], s.Value[1])
		}
		for _, s := range e.query(`max_over_time((scrape_duration_seconds and up == 1)[1h:1s])`) {
			t.Logf("%s: scrapes took up to %s s", s.Metric["instance"], s.Value[1])
		}
	}
	f.checkTop()
}

// startFleet boots a guest for each list of pods.
func startFleet(t *testing.T, pods [][]*guestPod) *fleet {
	t.Helper()
	f := &fleet{node: &node{t: t, dir: t.TempDir()}}
	f.makeCertificates()
	write(t, filepath.Join(f.dir, "web.yml"), webConfiguration)
	write(t, filepath.Join(f.dir, "bperf.yml"),
		strings.Replace(fmt.Sprintf(configuration, "9465", "[page-faults, instructions, cycles]"), "[metrics]", "[metrics, record]", 1))
	b, err := binaries.New()
	f.check(err)
	t.Cleanup(b.Remove)
	program, err := b.Program("arm64", "github.com/bperf/bperf/test/fleet/guest")
	f.check(err)
	files := map[string]string{"/bin/fleet-guest": program}
	for _, name := range []string{"bperf.yml", "web.yml", "ca.crt", "node.crt", "node.key"} {
		files["/node/"+name] = filepath.Join(f.dir, name)
	}
	t.Chdir(filepath.Join("..", "..", "..")) // where the programs of all guests can be compiled
	for i, port := range server.FreePorts(t, len(pods)) {
		list := filepath.Join(f.dir, fmt.Sprint("pods", i))
		text, err := json.Marshal(pods[i])
		f.check(err)
		write(t, list, string(text))
		own := maps.Clone(files)
		own["/node/pods"] = list
		f.guests = append(f.guests, startGuest(t, b, port, pods[i], own))
	}
	return f
}

// startGuest boots a guest. It ends with the test.
func startGuest(t *testing.T, b *binaries.Builder, port int, pods []*guestPod, files map[string]string) *guest {
	t.Helper()
	g := &guest{port: port, pods: pods, ended: make(chan struct{})}
	// With a second CPU that is busy, QEMU's counters would also get the instructions of that one.
	machine, err := boot.Prepare(b, &boot.Options{Kernel: "arm64/testing", CPUs: 1, CPUTime: time.Hour,
		Files: files, Ports: map[int]int{port: 9465}, Command: []string{"/bin/fleet-guest", "/node/pods", "/node/bperf.yml"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(g.ended)
		_, g.err = machine.Run(ctx, &g.output)
	}()
	t.Cleanup(func() {
		cancel()
		<-g.ended
		machine.Remove()
		if t.Failed() {
			t.Logf("the guest of port %d: %v\n%s", port, g.err, &g.output)
		}
	})
	return g
}

// job is a part of a configuration of Prometheus: the scrapes of all guests.
func (f *fleet) job() string {
	var targets []string
	for _, g := range f.guests {
		targets = append(targets, g.address())
	}
	return fmt.Sprintf(`
scrape_configs:
- job_name: bperf
  scrape_interval: 30s
  scrape_timeout: 30s
  scheme: https
  static_configs: [{targets: ['%s']}]
  tls_config: {ca_file: %s/ca.crt, cert_file: %[2]s/prometheus.crt, key_file: %[2]s/prometheus.key}
`, strings.Join(targets, "','"), f.dir)
}

func (g *guest) address() string { return fmt.Sprint("127.0.0.1:", g.port) }

// awaitSeries is that of the engine with more patience. It fails the test if a guest ends.
func (f *fleet) awaitSeries(e *engine, n int, expr string) (found []series) {
	f.t.Helper()
	server.AwaitLong(f.t, fleetPatience, expr, func() (missing string) {
		for _, g := range f.guests {
			select {
			case <-g.ended:
				f.t.Fatalf("the guest of port %d has ended", g.port)
			default:
			}
		}
		found, missing = e.find(n, expr)
		return missing
	})
	return found
}

// checkTop has bperf top print a table of all guests. Each has the rows of its containers.
func (f *fleet) checkTop() {
	f.t.Helper()
	var addresses []string
	for _, g := range f.guests {
		addresses = append(addresses, g.address())
	}
	cmd := exec.Command(program, "top", "--on", strings.Join(addresses, ","), "--on-tls-ca", filepath.Join(f.dir, "ca.crt"),
		"--on-cert", filepath.Join(f.dir, "prometheus.crt"), "--on-key", filepath.Join(f.dir, "prometheus.key"),
		"--by", "cgroup", "-e", "instructions,page-faults", "--once")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	f.check(err)
	for _, g := range f.guests {
		for _, p := range g.pods {
			if !regexp.MustCompile(`(?m)^` + g.address() + ` .* /kubepods.slice/.*` + p.ID).Match(out) {
				f.t.Errorf("bperf top has no row of %s of %s", p.ID, g.address())
			}
		}
	}
	if f.t.Failed() || testing.Verbose() {
		f.t.Logf("%s", out)
	}
}
