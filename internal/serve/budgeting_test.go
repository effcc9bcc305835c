package serve

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/bperf/bperf/internal/serve/budget"
	"github.com/bperf/bperf/internal/serve/node"
	"github.com/bperf/bperf/internal/serve/settings"
	"github.com/bperf/bperf/test/require"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// buffer is a buffer that several goroutines may use.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// simulated is a daemon whose periods end when the test says so, with the cost that it says.
type simulated struct {
	*Daemon
	t        *testing.T
	log      buffer
	ticks    chan time.Time
	measured chan measurement
	reload   chan os.Signal
	now      measurement
}

type measurement struct {
	cost
	err error
}

// simulate runs a daemon with a configuration until the end of the test.
func simulate(t *testing.T, text string) *simulated {
	t.Helper()
	require.Root(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "bperf.yml")
	check(t, os.WriteFile(path, []byte(text), 0o600))
	s := &simulated{t: t, ticks: make(chan time.Time), measured: make(chan measurement), reload: make(chan os.Signal)}
	s.now.cost = cost{time: time.Unix(1, 0), memory: 40 << 20, cpus: 2}
	var err error
	s.Daemon, err = New(Config{Path: path, Log: &s.log, Change: func(set *settings.Settings) {
		set.Listen = []string{"unix:" + filepath.Join(dir, "socket")}
	}})
	check(t, err)
	s.budget.tick = s.ticks
	s.budget.measure = func() (cost, error) {
		m := <-s.measured
		return m.cost, m.err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, s.reload) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s
}

// period ends a period in which bperf took these shares of the CPU time: the process, and its BPF programs. The first call waits until
// counting has begun.
func (s *simulated) period(process, bpf float64) {
	s.now.time = s.now.time.Add(10 * time.Second)
	s.now.cpu += time.Duration(process * float64(20*time.Second))
	s.now.switches += 1_000_000
	s.now.perSwitch = bpf * 20 / 1e6
	s.ticks <- s.now.time
	s.measured <- s.now
}

// metrics returns what a scrape has. The last period may not be in it yet.
func (s *simulated) metrics() string {
	s.t.Helper()
	families, err := prometheus.Gatherers{s.current.Load().metrics}.Gather() // checks that names, labels and series are valid
	check(s.t, err)
	var b bytes.Buffer
	for _, f := range families {
		_, err := expfmt.MetricFamilyToText(&b, f)
		check(s.t, err)
	}
	return b.String()
}

// drawn returns the page of a daemon.
func drawn(d *Daemon) string {
	w := httptest.NewRecorder()
	d.page.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	return w.Body.String()
}

// until ends periods until the metrics have all of these texts. A change takes effect at the end of a window, so it may need many.
func (s *simulated) until(process, bpf float64, want ...string) {
	s.t.Helper()
	var got string
	for deadline := time.Now().Add(10 * time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		s.period(process, bpf)
		missing := false
		got = s.metrics()
		for _, line := range want {
			missing = missing || !strings.Contains(got, line)
		}
		if !missing {
			return
		}
	}
	s.t.Fatalf("the metrics never had %q:\n%s\n%s", want, got, s.log.String())
}

// TestBudget has a storm: bperf gives up one thing after the other. Afterwards it takes them up again.
func TestBudget(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(server.Close)
	s := simulate(t, "events: ['page-faults,cpu-migrations']\nprofile: {every: 1s}\npush: [{kind: otlp, url: '"+server.URL+"'}]\n")
	s.until(0.002, 0.001, "bperf_budget_level 0\n", "bperf_profiling 1\n", `bperf_budget_cpu_ratio{part="process"} 0.002`,
		`bperf_budget_cpu_ratio{part="bpf_programs"} 0.001`, `bperf_budget_given_up{what="sampling_frequency"} 0`+"\n",
		"bperf_budget_memory_bytes 4.194304e+07\n", "bperf_budget_cpu_limit_ratio 0.01\n", "bperf_budget_memory_limit_bytes 6.7108864e+07\n")
	// Neither part alone is over the budget.
	s.until(0.006, 0.006, "bperf_budget_level 1\n", `bperf_budget_given_up{what="sampling_frequency"} 0.526`)
	s.until(0.006, 0.006, "bperf_budget_level 3\n", `bperf_budget_given_up{what="sampling_frequency"} 0.894`,
		`bperf_event_supported{event="cpu-migrations",reason=""} 1`, `bperf_budget_given_up{what="events"} 0`+"\n")
	s.until(0.006, 0.006, "bperf_budget_level 4\n", `bperf_event_supported{event="cpu-migrations",reason="`+node.GivenUp+`"} 0`,
		`bperf_budget_given_up{what="events"} 0.5`, `bperf_node_events_total{cpu="0",event="page-faults"}`, "bperf_profiling 1\n")
	s.until(0.006, 0.006, "bperf_budget_level 5\n", `bperf_budget_given_up{what="stacks"} 1`, "bperf_profiling 0\n")

	if got := s.budget.status.Load(); !strings.HasSuffix(got.Why, " bperf took 1.20 % of the CPU time (the budget is 1 %)") || got.All.Events != 2 {
		t.Errorf("at level 5: %+v", got)
	}
	if got := drawn(s.Daemon); !strings.Contains(got, "<strong class=\"bad\">the profile; events: the first 1 of 2 are counted</strong> <small>level 5: at ") {
		t.Errorf("the page at level 5:\n%s", got)
	}

	if found := s.doctor.Load(); found == nil || !found.CanCount || len(found.Findings) == 0 {
		t.Errorf("bperf doctor: %+v", found)
	}

	// Without a measurement, nothing changes.
	s.now.err = errors.New("no measurement")
	for range 20 {
		s.period(0.001, 0)
	}
	if got := s.metrics(); !strings.Contains(got, "bperf_budget_level 5\n") || strings.Contains(got, "bperf_budget_cpu_ratio{") {
		t.Errorf("without a measurement:\n%s", got)
	}
	s.now.err = nil
	s.until(0.001, 0.001, "bperf_budget_level 0\n", "bperf_profiling 1\n", `bperf_event_supported{event="cpu-migrations",reason=""} 1`,
		`bperf_budget_given_up{what="sampling_frequency"} 0`+"\n", `bperf_budget_given_up{what="stacks"} 0`+"\n")
	if got := s.budget.status.Load(); got.Why != "" {
		t.Errorf("at level 0: %+v", got)
	}
	log := s.log.String()
	for text, times := range map[string]int{
		"over the budget: bperf gives up something": 5, "under the budget: bperf takes up something again": 5,
		"the cost of bperf is not known": 1,
		"level=4 frequency=2 inside=false events=1 profile=true containers=true cpu=1.20% memory=40.0M": 1, "level=ERROR": 0,
	} {
		if n := strings.Count(log, text); n != times {
			t.Errorf("%q is there %d times, want %d:\n%s", text, n, times, log)
		}
	}
}

// TestGoMemoryLimit checks that the Go runtime never gets so little memory that it collects garbage all the time.
func TestGoMemoryLimit(t *testing.T) {
	require.NoKernel(t)
	for _, test := range []struct {
		memory, live  uint64
		without, want int64
	}{
		{64 << 20, 0, math.MaxInt64, 48 << 20}, {64 << 20, 26 << 20, math.MaxInt64, 48 << 20}, {64 << 20, 60 << 20, math.MaxInt64, 98 << 20},
		{64 << 20, 60 << 20, 10 << 20, 10 << 20}, {0, 60 << 20, 10 << 20, 10 << 20},
	} {
		if got := goMemoryLimit(test.memory, test.live, test.without); got != test.want {
			t.Errorf("a budget of %d bytes, and %d in use: %d, want %d", test.memory, test.live, got, test.want)
		}
	}
}

// TestBudgetReload checks that a reload with another budget begins at level 0, and sets the limit of the Go runtime.
func TestBudgetReload(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	s := simulate(t, "events: [page-faults, cpu-migrations]\nprofile: {event: \"\"}\nbudget: {memory: 40M}\n")
	s.now.memory = 41 << 20
	s.until(0, 0, "bperf_budget_level 1\n", `bperf_event_supported{event="cpu-migrations",reason="`+node.GivenUp+`"} 0`)
	if got := debug.SetMemoryLimit(-1); got != 30<<20 {
		t.Errorf("the memory limit of the Go runtime is %d bytes", got)
	}
	check(t, os.WriteFile(s.config.Path, []byte("events: [page-faults, cpu-migrations]\nprofile: {event: \"\"}\nbudget: {memory: 0, cpu: 0}\n"), 0o600))
	s.reload <- syscall.SIGHUP
	s.period(1, 1)
	s.period(1, 1)
	s.period(1, 1)
	got := s.metrics()
	for _, want := range []string{"bperf_budget_level 0\n", `bperf_event_supported{event="cpu-migrations",reason=""} 1`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
	if strings.Contains(got, "bperf_budget_memory_limit_bytes") || strings.Contains(got, "bperf_budget_cpu_limit_ratio") {
		t.Errorf("there are limits:\n%s", got)
	}
	if got := debug.SetMemoryLimit(-1); got != before {
		t.Errorf("the memory limit of the Go runtime is %d bytes, before %d", got, before)
	}
}

// TestCost checks the measurement of a daemon that runs.
func TestCost(t *testing.T) {
	s := simulate(t, "events: [page-faults]\n")
	s.until(0, 0, "bperf_budget_level 0\n")
	c, err := s.cost()
	check(t, err)
	if c.cpu <= 0 || c.memory == 0 || c.cpus == 0 || c.switches == 0 || c.time.IsZero() {
		t.Errorf("%+v", c)
	}
	for deadline := time.Now().Add(2 * time.Minute); c.perSwitch == 0; time.Sleep(10 * time.Millisecond) { // until the first window has ended
		c, err = s.cost()
		check(t, err)
		if time.Now().After(deadline) {
			t.Fatal("the run time for each context switch is not known after two minutes")
		}
	}
}

func TestShares(t *testing.T) {
	require.NoKernel(t)
	at := func(seconds int, cpu time.Duration, switches uint64) *cost {
		return &cost{time: time.Unix(int64(seconds), 0), cpu: cpu, switches: switches, cpus: 4}
	}
	for _, test := range []struct {
		name          string
		before, after *cost
		perSwitch     float64
		process, bpf  budget.Value
	}{
		{"both", at(10, time.Second, 1000), at(20, 3*time.Second, 101_000), 2e-6, budget.Known(0.05), budget.Known(0.005)},
		{"programs are not known", at(10, time.Second, 1000), at(20, 3*time.Second, 101_000), 0, budget.Known(0.05), budget.Value{}},
		{"nothing before", &cost{}, at(20, 3*time.Second, 101_000), 1e-6, budget.Value{}, budget.Value{}},
		{"no measurement", at(10, time.Second, 1000), &cost{}, 1e-6, budget.Value{}, budget.Value{}},
		{"no time between", at(10, time.Second, 1000), at(10, time.Second, 1000), 1e-6, budget.Value{}, budget.Value{}},
	} {
		var s budget.Status
		test.after.sessions = test.after.cpu / 2
		test.before.sessions = test.before.cpu / 2
		shares(&s, test.before, test.after, test.perSwitch)
		of := test.process // the sessions take half
		of.Of /= 2
		for _, v := range []struct{ got, want budget.Value }{{s.Process, test.process}, {s.Programs, test.bpf}, {s.Sessions, of}} {
			if v.got.Known != v.want.Known || math.Abs(v.got.Of-v.want.Of) > 1e-12 {
				t.Errorf("%s: %+v, want %+v", test.name, v.got, v.want)
			}
		}
	}
}
