package metrics

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"google.golang.org/protobuf/proto"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/count/process"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/serve/container"
	"github.com/bperf/bperf/internal/serve/node"
	"github.com/bperf/bperf/test/golden"
	"github.com/bperf/bperf/test/require"
)

// families returns what a gatherer gathers. It checks that names and labels are valid, and that no series is there twice.
func families(t testing.TB, g prometheus.Gatherer) []*dto.MetricFamily {
	t.Helper()
	all, err := prometheus.Gatherers{g}.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// gather returns what a scrape returns, in the text format, checked as families does.
func gather(t testing.TB, c *Collector) string {
	t.Helper()
	var b bytes.Buffer
	for _, f := range families(t, c) {
		if _, err := expfmt.MetricFamilyToText(&b, f); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

// returning returns a function that returns each snapshot in turn, and then the last one.
func returning(snaps ...*node.Snapshot) func() (*node.Snapshot, error) {
	return func() (*node.Snapshot, error) {
		s := snaps[0]
		if len(snaps) > 1 {
			snaps = snaps[1:]
		}
		return s, nil
	}
}

// example has something of everything.
func example() *node.Snapshot {
	full := perfevent.Reading{Value: 3_000_000_000, Enabled: 2e9, Running: 2e9}
	shared := perfevent.Reading{Value: 40, Enabled: 4e9, Running: 1e9}
	starved := perfevent.Reading{Enabled: 4e9}
	return &node.Snapshot{
		Events: []node.Event{
			{Name: "cycles"}, {Name: "cache-misses"}, {Name: "nosuch", Reason: "this CPU has no such event\n\x1b[31m"}, {Name: "page-faults"}, {Name: "cycles"},
		},
		CPUs: []node.CPU{
			{Number: 0, Readings: []perfevent.Reading{full, shared, {}, {Enabled: 5e9, Running: 5e9}, full}},
			{Number: 3, Readings: []perfevent.Reading{full, starved, {}, {}, full}},
		},
		Containers: []node.Container{
			{
				Name: container.Name{
					Cgroup: 7, Path: "/kubepods.slice/x", ID: strings.Repeat("ab", 32), PodUID: "d9b2d63d-a233-4123-847a-8fa2fbd4c6a1", Namespace: "shop",
					Pod: "cart-0", Container: "cart",
				},
				CPUTime: 1500 * time.Millisecond, Switches: 12, OffCPU: [process.Reasons]time.Duration{250 * time.Millisecond, time.Hour, time.Microsecond},
				Readings: []perfevent.Reading{full, shared, {}, {Value: 1, Enabled: 1e9, Running: 1e9}, full},
			},
			{Name: container.Name{Cgroup: 8, ID: "hostile\"\\\n\x00\xff\u202e" + strings.Repeat("é", 200)}, CPUTime: time.Second, Switches: 1},
			{Name: container.Name{Cgroup: 10, Path: "/system.slice/cron.service"}, CPUTime: time.Second, Switches: 2},
			{Name: container.Name{Cgroup: 9, ID: "idle"}, Readings: make([]perfevent.Reading, 5)},
		},
		Programs: []node.Program{
			{ID: 1, Name: "drop", Type: "xdp", Tag: "0123456789abcdef", Runs: 10, Time: time.Millisecond},
			{ID: 2, Name: "drop", Type: "xdp", Tag: "0123456789abcdef", Runs: 5, Time: time.Millisecond},
			{ID: 3, Name: "idle", Type: "kprobe", Tag: "aaaaaaaaaaaaaaaa"},
		},
		Inside: []node.InProgram{
			{ID: 1, Name: "drop", Type: "xdp", Tag: "0123456789abcdef", Runs: 3, Dropped: 1, Times: timesOf(1000, 3000), Time: 4000, Readings: []perfevent.Reading{full, {}}},
			{ID: 2, Name: "drop", Type: "xdp", Tag: "0123456789abcdef", Runs: 2, Times: timesOf(0, 1100), Time: 1100, Readings: []perfevent.Reading{shared, {}}},
			{ID: 9, Name: "hostile\n\x1b", Type: "kprobe", Readings: make([]perfevent.Reading, 2)},
		},
		InsideEvents: []node.Event{{Name: "cycles"}, {Name: "nosuch", Reason: "this CPU has no such event"}},
		NoInside:     "BPF program old[4]: The kernel does not let this process trace programs",
		NoPrograms:   "CAP_SYS_ADMIN is missing",
		Losses:       []node.Loss{{What: "cgroup_switches", Count: 0}, {What: "programs", Count: 3}, {What: "programs", Count: 1}},
		Self:         node.Self{CPUTime: 250 * time.Millisecond, Memory: 30 << 20, Programs: map[string]time.Duration{"on_switch": time.Microsecond}, Window: 2 * time.Second},
	}
}

// timesOf returns the histogram of run times in ns.
func timesOf(all ...uint64) (r count.Runs) {
	r.Counted = uint64(len(all))
	for _, v := range all {
		r.Buckets[count.BucketOf(v)]++
	}
	return r
}

// TestRunTimes compares the quantiles of the exported histogram with those of the run times.
func TestRunTimes(t *testing.T) {
	require.NoKernel(t)
	random := rand.New(rand.NewPCG(1, 2))
	times := make([]uint64, 10_000)
	for i := range times {
		times[i] = uint64(math.Exp(2 + 15*random.Float64())) // 7 ns to 24 ms
	}
	slices.Sort(times)
	snap := &node.Snapshot{Inside: []node.InProgram{{ID: 1, Name: "p", Times: timesOf(times...)}}}
	c := New(returning(snap), 1000)
	families, err := c.Gather()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == "bperf_bpf_program_run_duration_seconds" })
	if i < 0 {
		t.Fatal("no histogram")
	}
	h := families[i].Metric[0].GetHistogram()
	if h.GetSampleCount() != uint64(len(times)) || h.GetSchema() != schema {
		t.Fatalf("%v", h)
	}
	at, inBucket, seen, deltas := int32(0), int64(0), int64(0), h.GetPositiveDelta()
	for _, span := range h.GetPositiveSpan() {
		at += span.GetOffset()
		for range span.GetLength() {
			inBucket, deltas = inBucket+deltas[0], deltas[1:]
			seen += inBucket
			if inBucket > 0 { // the last of these run times is in this bucket, or in one of those beside it that a bucket in ns covers
				want, got := float64(times[seen-1])/1e9, math.Exp2(float64(at)/(1<<schema))
				if got < 0.85*want || got > 1.2*want {
					t.Errorf("%d of the run times are at most %g s, and not %g s", seen, want, got)
				}
			}
			at++
		}
	}
	if seen != int64(len(times)) {
		t.Errorf("%d run times are in the buckets", seen)
	}
}

// TestHistogram compares histograms with those of Prometheus' library.
func TestHistogram(t *testing.T) {
	require.NoKernel(t)
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 200 {
		var runs count.Runs
		for i := range runs.Buckets {
			if random.IntN(200) <= n {
				runs.Buckets[i] = random.Uint64N(1e6)
			}
		}
		native, all := map[int]int64{}, uint64(0)
		for _, b := range runs.Histogram() {
			if all += b.Runs; b.Runs > 0 && b.High > 0 {
				native[int(math.Ceil(math.Log2((b.Low+b.High)/2e9)*(1<<schema)))] += int64(b.Runs)
			}
		}
		d := prometheus.NewDesc(insideTimes.name, insideTimes.help, nil, nil)
		m, err := prometheus.NewConstNativeHistogram(d, all, 1.5, native, nil, runs.Buckets[0], schema, 0.5e-9, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		var want dto.Metric
		if err := m.Write(&want); err != nil {
			t.Fatal(err)
		}
		want.Histogram.CreatedTimestamp = nil
		s := &Scrape{families: map[*Desc]*dto.MetricFamily{}}
		s.histogram(insideTimes, 1.5, runs.Buckets[:], nil)
		if got := s.families[insideTimes].Metric[0]; !proto.Equal(got, &want) {
			t.Fatalf("%d: got\n%v\nwant\n%v", n, got, &want)
		}
	}
}

// TestRuntime compares the metrics of the Go runtime with those of Prometheus' library.
func TestRuntime(t *testing.T) {
	require.NoKernel(t)
	library := prometheus.NewRegistry()
	library.MustRegister(collectors.NewGoCollector())
	all := New(returning(&node.Snapshot{}), 0, Runtime)
	runtime.GC() // no garbage of other tests goes away meanwhile
	before, want, after := families(t, all), families(t, library), families(t, all)
	isOther := func(f *dto.MetricFamily) bool { return !strings.HasPrefix(f.GetName(), "go_") }
	before, after = slices.DeleteFunc(before, isOther), slices.DeleteFunc(after, isOther)
	if len(before) != len(want) {
		t.Fatalf("%d metrics, want %d:\n%v\n%v", len(before), len(want), before, want)
	}
	for i, w := range want {
		if f := after[i]; f.GetName() != w.GetName() || f.GetType() != w.GetType() {
			t.Errorf("%s is a %s; want %s, a %s", f.GetName(), f.GetType(), w.GetName(), w.GetType())
		}
		// A counter only rises. A gauge may change at any time, but it keeps its order of magnitude, unless it is of memory that the heap
		// takes when it grows.
		low, value, high := valueOf(before[i]), valueOf(w), valueOf(after[i])
		if w.GetType() == dto.MetricType_COUNTER && (value < low || value > high) {
			t.Errorf("%s is %g; %g before, %g after", w.GetName(), value, low, high)
		}
		spare := strings.Contains(w.GetName(), "_idle_") || strings.Contains(w.GetName(), "_released_")
		if w.GetType() == dto.MetricType_GAUGE && !spare && low > 0 && (value < low/100 || value > 100*low) {
			t.Errorf("%s is %g; %g before, %g after", w.GetName(), value, low, high)
		}
	}
}

// valueOf returns the value of the first series of a counter or gauge.
func valueOf(f *dto.MetricFamily) float64 {
	m := f.GetMetric()[0]
	return m.GetCounter().GetValue() + m.GetGauge().GetValue()
}

func TestExposition(t *testing.T) {
	require.NoKernel(t)
	got := gather(t, New(returning(example()), 1000))
	golden.Compare(t, "testdata/metrics.txt", got)
	problems, err := promlint.New(strings.NewReader(got)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// TestPromtool checks the metrics with Prometheus' own tool. TestExposition has the same check from client_golang, which needs no promtool.
func TestPromtool(t *testing.T) {
	require.NoKernel(t)
	cmd := exec.Command(require.Promtool(t), "check", "metrics")
	cmd.Stdin = strings.NewReader(gather(t, New(returning(example()), 1000, Runtime)))
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}

// TestRules runs the tests of the rules for Prometheus.
func TestRules(t *testing.T) {
	require.NoKernel(t)
	promtool := require.Promtool(t)
	for _, args := range [][]string{{"check", "rules", "bperf.rules.yml"}, {"test", "rules", "bperf.test.yml"}} {
		cmd := exec.Command(promtool, args...)
		cmd.Dir = filepath.Join("..", "..", "..", "packaging", "prometheus")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

func TestReadFails(t *testing.T) {
	require.NoKernel(t)
	c := New(func() (*node.Snapshot, error) { return nil, errors.New("the map is gone") }, 1000)
	if _, err := c.Gather(); err == nil || !strings.Contains(err.Error(), "read the counts of this node: the map is gone") {
		t.Errorf("error %v", err)
	}
}

// TestSums checks that sums do not fall when one of several programs of the same name ends, or when a count falls.
func TestSums(t *testing.T) {
	require.NoKernel(t)
	programs := func(p ...node.Program) *node.Snapshot {
		for i := range p {
			p[i].Name, p[i].Type, p[i].Tag, p[i].Time = "f", "xdp", "t", time.Duration(p[i].Runs)*time.Second
		}
		return &node.Snapshot{Programs: p}
	}
	snaps := []*node.Snapshot{
		programs(node.Program{ID: 1, Runs: 100}, node.Program{ID: 2, Runs: 10}),
		programs(node.Program{ID: 2, Runs: 15}),
		programs(node.Program{ID: 2, Runs: 14}, node.Program{ID: 3, Runs: 1}),
		programs(node.Program{ID: 2, Runs: 16}),
		programs(),
		programs(node.Program{ID: 4, Runs: 2}),
	}
	c := New(returning(snaps...), 1000)
	for i, want := range []string{"110", "115", "116", "117", "", "2"} {
		got := gather(t, c)
		for _, metric := range []string{"runs_total", "run_seconds_total"} {
			line := fmt.Sprintf("bperf_bpf_program_%s{name=\"f\",tag=\"t\",type=\"xdp\"} %s\n", metric, want)
			if want != "" && !strings.Contains(got, line) || want == "" && strings.Contains(got, metric) {
				t.Errorf("snapshot %d: no %q in\n%s", i, line, got)
			}
		}
	}
}

// TestPodBecomesKnown checks a container whose labels change: its counts go with it.
func TestPodBecomesKnown(t *testing.T) {
	require.NoKernel(t)
	before, after := example(), example()
	before.Containers[0].Pod, before.Containers[0].Namespace = "", ""
	c := New(returning(before, after), 1000)
	gather(t, c)
	if got, want := gather(t, c), gather(t, New(returning(example()), 1000)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestLimit checks that a scrape has no more series than the limit, that those which were exported first stay, and that the others are counted.
func TestLimit(t *testing.T) {
	require.NoKernel(t)
	first, second := many(3, 1, 1), many(6, 1, 1)
	for i := range second.Containers {
		second.Containers[i].Cgroup = uint64(100 - i) // the new ones have smaller numbers
		second.Containers[i].ID = fmt.Sprint("new", i)
	}
	second.Containers = append(second.Containers, first.Containers...)
	c := New(returning(first, second), 3+4*8+1) // a CPU, four containers, and one series more
	if got := gather(t, c); !strings.Contains(got, "bperf_series_left_out_total 0\n") {
		t.Errorf("series were left out without need:\n%s", got)
	}
	got := gather(t, c)
	if n := strings.Count(got, "bperf_container_events_total{"); n != 4 || !strings.Contains(got, "bperf_series_left_out_total 40\n") {
		t.Errorf("%d containers, want 4, and 40 series left out:\n%s", n, got)
	}
	for _, c := range first.Containers {
		if !strings.Contains(got, c.ID) {
			t.Errorf("container %s went when others came:\n%s", c.ID, got)
		}
	}
}

// TestChurn checks that nothing is kept of containers and programs that are gone.
func TestChurn(t *testing.T) {
	require.NoKernel(t)
	c := New(nil, 1000)
	for i := range 50 {
		snap := many(10, 2, 1)
		for j := range snap.Containers {
			snap.Containers[j].Cgroup += uint64(100 * i)
			snap.Containers[j].ID += fmt.Sprint(i)
		}
		snap.Programs = []node.Program{{ID: uint32(i), Name: fmt.Sprint(i), Runs: 1}}
		c.read = returning(snap)
		gather(t, c)
	}
	if n := len(c.containers.members) + len(c.containers.sums); n != 20 {
		t.Errorf("%d containers are kept, want 10, with 10 sums", n)
	}
	if n := len(c.programs.members) + len(c.programs.sums); n != 2 {
		t.Errorf("%d programs are kept, want 1, with 1 sum", n)
	}
}

// many returns a snapshot of a node with this many containers, events and CPUs.
func many(containers, events, cpus int) *node.Snapshot {
	s := &node.Snapshot{Self: node.Self{CPUTime: time.Second}}
	var readings []perfevent.Reading
	for i := range events {
		s.Events = append(s.Events, node.Event{Name: fmt.Sprint("event-", i)})
		readings = append(readings, perfevent.Reading{Value: 123_456_789_012, Enabled: 3_600_123_456_789, Running: 3_600_123_456_789})
	}
	for i := range cpus {
		s.CPUs = append(s.CPUs, node.CPU{Number: i, Readings: readings})
	}
	for i := range containers {
		s.Containers = append(s.Containers, node.Container{
			Name: container.Name{
				Cgroup: uint64(1000 + i), ID: fmt.Sprintf("%064x", i), PodUID: fmt.Sprintf("d9b2d63d-a233-4123-847a-%012x", i), Namespace: "production",
				Pod: fmt.Sprintf("some-service-6d4cf56db6-%05x", i), Container: "some-service",
			},
			CPUTime: time.Hour, Switches: 123_456_789, Readings: readings,
		})
	}
	return s
}

// maxExposition is the limit of a scrape of 110 containers and 6 events, in bytes.
const maxExposition = 2 << 20

func TestSize(t *testing.T) {
	require.NoKernel(t)
	if n := len(gather(t, New(returning(many(110, 6, 8)), 20_000))); n > maxExposition {
		t.Errorf("a scrape of 110 containers and 6 events has %d bytes", n)
	}
}

// BenchmarkScrape has 110 containers, and the 120 of the last two minutes.
func BenchmarkScrape(b *testing.B) {
	c := New(returning(many(230, 6, 2)), 20_000)
	var size int
	b.ReportAllocs()
	for b.Loop() {
		families, err := c.Gather()
		if err != nil {
			b.Fatal(err)
		}
		var text bytes.Buffer
		for _, f := range families {
			if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
				b.Fatal(err)
			}
		}
		size = text.Len()
	}
	b.ReportMetric(float64(size), "B/scrape")
}
