package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	pprof "github.com/google/pprof/profile"

	"github.com/bperf/bperf/internal/serve/settings"
	"github.com/bperf/bperf/test/require"
)

// daemon is bperf serve, which listens on a Unix socket.
type daemon struct {
	t      *testing.T
	cmd    *exec.Cmd
	log    bytes.Buffer
	client *http.Client
	ended  chan error
}

// patience is how long tests wait for a daemon. An emulated guest with a tenth of a CPU, beside other work, takes minutes to start one.
const patience = 10 * time.Minute

// startServe starts bperf serve with further flags, and waits until it counts.
func startServe(t *testing.T, args ...string) *daemon {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "bperf.sock")
	d := &daemon{t: t, ended: make(chan error, 1)}
	d.cmd = bperf(append([]string{"serve", "--listen", "unix:" + socket, "-e", "page-faults,cpu-migrations"}, args...)...)
	d.cmd.Stderr = &d.log
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { d.ended <- d.cmd.Wait() }()
	t.Cleanup(func() { d.cmd.Process.Kill() }) // fails after its end
	d.client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", socket)
	}}}
	d.await("/-/ready", "bperf is ready.")
	return d
}

// await asks for a path until the answer matches.
func (d *daemon) await(path, pattern string) string {
	d.t.Helper()
	expression := regexp.MustCompile(pattern)
	deadline := time.After(patience)
	for last := ""; ; time.Sleep(10 * time.Millisecond) {
		select {
		case err := <-d.ended:
			d.t.Fatalf("serve ended: %v\n%s", err, d.log.String())
		case <-deadline:
			d.t.Fatalf("%s never had %q, but\n%s", path, pattern, last)
		default:
		}
		response, err := d.client.Get("http://localhost" + path)
		if err != nil {
			last = err.Error()
			continue
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if last = string(body); err == nil && expression.MatchString(last) {
			return last
		}
	}
}

// stop sends a signal, waits for the end and returns its error. The log can be read afterwards.
func (d *daemon) stop(sig syscall.Signal) error {
	d.t.Helper()
	if err := d.cmd.Process.Signal(sig); err != nil {
		d.t.Fatal(err)
	}
	select {
	case err := <-d.ended:
		return err
	case <-time.After(patience):
		d.t.Fatalf("serve has not ended %v after %v", patience, sig)
		return nil
	}
}

func TestServe(t *testing.T) {
	require.Root(t)
	signals := []syscall.Signal{syscall.SIGTERM, syscall.SIGINT}
	if require.IsGuest() { // where a daemon takes seconds to start
		signals = signals[:1]
	}
	for _, sig := range signals {
		d := startServe(t)
		d.await("/metrics", `bperf_node_events_total{cpu="0",event="page-faults"}`)
		d.await("/metrics", `bperf_bpf_program_runs_total{`)
		d.await("/", "(?s)<h2 id=\"cpus\">.*page-faults.*<h2 id=\"missing\">")
		if err := d.stop(sig); err != nil {
			t.Errorf("%v: %v", sig, err)
		}
		if log := d.log.String(); !strings.Contains(log, "level=INFO msg=ended") || strings.Contains(log, "level=ERROR") {
			t.Errorf("%v: the log is\n%s", sig, log)
		}
	}
}

// TestServeInside counts inside a BPF program that runs a known number of times.
func TestServeInside(t *testing.T) {
	require.Root(t)
	_, id := onGetSID(t, "of_serve", true)
	path := filepath.Join(t.TempDir(), "bperf.yml")
	if err := os.WriteFile(path, []byte("inside: {programs: '"+id+"', events: [page-faults, nosuch]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := startServe(t, "--config", path)
	got := d.await("/metrics", `bperf_feature_supported\{feature="inside_bpf_programs",reason="(|BPF program [^"]+)"\} [01]`)
	if !strings.Contains(got, `feature="inside_bpf_programs",reason=""} 1`) {
		if require.IsGuest() {
			t.Fatal(got)
		}
		t.Skip("the kernel does not let this process trace programs: a guest counts")
	}
	if out, err := exec.Command(sid1000.Write(t)).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	const labels = `name="of_serve",tag="[0-9a-f]{16}",type="tracepoint"`
	d.await("/metrics", `bperf_bpf_program_run_duration_seconds_count\{`+labels+`\} 1000\n`)
	for _, pattern := range []string{`bperf_bpf_program_run_duration_seconds_sum\{` + labels + `\} \d`, `bperf_bpf_program_dropped_runs_total\{` + labels + `\} 0\n`,
		`bperf_bpf_program_events_total\{event="page-faults",` + labels + `\} 0\n`, `bperf_bpf_program_event_supported\{event="nosuch",reason="[^"]+"\} 0\n`} {
		d.await("/metrics", pattern)
	}
	if err := d.stop(syscall.SIGTERM); err != nil {
		t.Errorf("%v\n%s", err, d.log.String())
	}
}

// TestServeReload checks that SIGHUP brings another configuration, and that a bad one changes nothing and says why.
func TestServeReload(t *testing.T) {
	require.NoKernel(t)
	require.Root(t)
	path := filepath.Join(t.TempDir(), "bperf.yml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("series_limit: 100000\n")
	d := startServe(t, "--config", path, "-e", "nosuch")
	d.await("/metrics", "bperf_series_left_out_total 0\n")
	reload := func() {
		t.Helper()
		if err := d.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	write("series_limit: 1\n")
	reload()
	d.await("/metrics", "bperf_series_left_out_total [1-9]")
	write("series_limit: 100000\nnosuch: 1\n")
	reload()
	d.await("/metrics", "bperf_config_last_reload_successful 0\n")
	if got := d.await("/metrics", "bperf_series_left_out_total"); strings.Contains(got, "bperf_node_events_total{") {
		t.Errorf("a bad file changed the limit:\n%s", got)
	}
	write("bpf_statistics: {on: 1s, every: 2s}\n")
	reload()
	d.await("/metrics", "bperf_config_last_reload_successful 1\n")
	d.await("/metrics", `bperf_node_events_total{cpu="0",event="page-faults"}`)
	if err := d.stop(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	for _, want := range []string{path + ": line 2: unknown key nosuch", `msg="an event is not counted" event=nosuch reason=`} {
		if log := d.log.String(); !strings.Contains(log, want) {
			t.Errorf("the log has no %q:\n%s", want, log)
		}
	}
}

// TestServeKilled checks that no BPF program of a daemon that was killed stays.
func TestServeKilled(t *testing.T) {
	require.AnyArch(t)
	require.Root(t)
	kills := 1
	if require.Long() {
		kills = 50
	}
	for range kills {
		d := startServe(t)
		own := programsOf(t, d.cmd.Process.Pid)
		if len(own) == 0 {
			t.Fatal("the daemon has no BPF programs: the test checks nothing")
		}
		if err := d.stop(syscall.SIGKILL); err == nil {
			t.Fatal("the daemon survived SIGKILL")
		}
		for _, id := range own {
			eventually(t, fmt.Sprint("BPF program ", id, " of a killed daemon is unloaded"), func() bool { return unloaded(id) })
		}
	}
}

// programsOf returns the IDs of the BPF programs that a process holds: prog_id in /proc/PID/fdinfo.
func programsOf(t *testing.T, pid int) []ebpf.ProgramID {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fdinfo/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	var ids []ebpf.ProgramID
	for _, file := range files {
		info, err := os.ReadFile(file)
		if err != nil {
			continue // a descriptor that was closed
		}
		for line := range strings.Lines(string(info)) {
			var id ebpf.ProgramID
			if n, _ := fmt.Sscanf(line, "prog_id: %d", &id); n == 1 {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// TestServeProfiles pulls a profile, and has the daemon push profiles and metrics.
func TestServeProfiles(t *testing.T) {
	require.NoKernel(t)
	require.Root(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path != "/v1development/profiles" && r.URL.Path != "/v1/metrics" {
			w.WriteHeader(http.StatusNotFound)
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	defer server.Close()
	path := filepath.Join(t.TempDir(), "bperf.yml")
	if err := os.WriteFile(path, []byte("profile: {every: 1s}\nmetrics_every: 1s\npush: [{kind: otlp, url: '"+server.URL+"'}, {kind: otlp-metrics, url: '"+server.URL+"'}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := startServe(t, "--config", path)
	got, err := d.client.Get("http://localhost/debug/pprof/profile?seconds=1")
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	p, err := pprof.Parse(got.Body)
	if err != nil || got.StatusCode != http.StatusOK || len(p.SampleType) != 2 || p.SampleType[1].Type != "cpu" {
		t.Errorf("%s, %v: %v", got.Status, err, p)
	}
	for _, kind := range []string{"otlp", "otlp-metrics"} {
		d.await("/metrics", `bperf_push_items_total\{kind="`+kind+`",url="`+server.URL+`[^"]*"\} [1-9]`)
	}
	d.await("/metrics", "bperf_profiling 1")
	d.await("/flamegraph", `(?s)cpu-clock: \d+ samples.*<svg class="flame"`)
	d.await("/", `(?s)href="/flamegraph".*<h2 id="pushes">.*`+server.URL)
	if err := d.stop(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}

// TestServeFlameGraphs has no server to push to: the page has flame graphs nevertheless.
func TestServeFlameGraphs(t *testing.T) {
	require.NoKernel(t)
	require.Root(t)
	path := filepath.Join(t.TempDir(), "bperf.yml")
	if err := os.WriteFile(path, []byte("profile: {every: 1s}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := startServe(t, "--config", path)
	d.await("/flamegraph", `(?s)cpu-clock: \d+ samples.*<svg class="flame"`)
	d.await("/flamegraph?diff", `(?s)Compared with the profile of 20.*<svg class="flame"`)
	d.await("/", `(?s)href="/flamegraph".*<h2 id="pushes">Pushes</h2>\n<p>Profiles and metrics are pushed to no server`)
	if err := d.stop(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}

func TestServeErrors(t *testing.T) {
	require.NoKernel(t)
	bad := filepath.Join(t.TempDir(), "bad.yml")
	if err := os.WriteFile(bad, []byte("listen:\n  - 127.0.0.1:0\nnosuch: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"--config", bad}, 1, "Error: " + bad + ": line 3: unknown key nosuch"},
		{[]string{"--listen", "0.0.0.0:0"}, 1, "this needs web_config with TLS"},
		{[]string{"--listen", "nonsense"}, 1, `listen: "nonsense" is not HOST:PORT or unix:PATH`},
		{[]string{"--cpu-budget", "much"}, 1, `budget: cpu: "much" is not a percentage of all CPUs, such as 1%, or 0 for no limit`},
		{[]string{"--memory-budget", "1M"}, 1, `budget: memory: "1M" is not a size of at least 32M`},
		{[]string{"--log-level", "loud"}, 1, `log: unknown level "loud"`},
		{[]string{"--nosuch"}, statusBadOption, "unknown flag: --nosuch"},
	} {
		got := runHere(t, append([]string{"serve"}, test.args...)...)
		if got.status != test.status || !strings.Contains(got.stderr, test.want) {
			t.Errorf("serve %v: status %d\n%s", test.args, got.status, got.stderr)
		}
	}
	if got := runHere(t, "serve", "--print-config"); got.status != 0 || got.stdout != settings.Text {
		t.Errorf("--print-config: status %d, output\n%s", got.status, got.stdout)
	}
}
