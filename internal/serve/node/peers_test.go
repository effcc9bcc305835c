package node

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/serve/container"
	"github.com/bperf/bperf/test/keeper"
	"github.com/bperf/bperf/test/require"
)

// describing returns what perSwitch returns while each event is open for each container: one descriptor per event, CPU and cgroup.
func (l *lab) describing(t *testing.T) float64 {
	t.Helper()
	list, err := event.Host().Parse(costEvents)
	check(t, err)
	var limit unix.Rlimit
	check(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	limit.Cur = limit.Max
	check(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	var all []*perfevent.Event
	defer func() {
		for _, e := range all {
			check(t, e.Close())
		}
	}()
	for _, dir := range l.dirs {
		group, err := os.Open(dir)
		check(t, err)
		for _, e := range list.Events() {
			attr := e.Attr
			attr.ReadFormat = perfevent.ReadFormatTimes
			opened, err := perfevent.Open(&attr, perfevent.Where{UseCgroup: true, Cgroup: int(group.Fd()), CPU: 0})
			check(t, err)
			all = append(all, opened)
		}
		check(t, group.Close())
	}
	cost := l.perSwitch(t)
	for i, e := range all {
		busy := i/len(list.Events()) < 2
		if r, err := e.Read(); err != nil || busy && (r.Running == 0 || r.Running != r.Enabled) || !busy && r.Running > 0 {
			t.Fatalf("event %d: %+v, %v", i, r, err)
		}
	}
	return cost
}

// inPerf returns what perSwitch returns while perf counts the containers, with these options.
func (l *lab) inPerf(t *testing.T, perf string, options ...string) float64 {
	t.Helper()
	dirs, err := container.FindDirs()
	check(t, err)
	var names []string
	for _, dir := range l.dirs {
		names = append(names, strings.TrimPrefix(dir, dirs.Cgroups+"/"))
	}
	ctl, ack := fifo(t), fifo(t)
	args := append([]string{"stat", "-a", "-x,", "-e", costEvents, "--for-each-cgroup", strings.Join(names, ","), "--control", "fifo:" + ctl.Name() + "," + ack.Name()}, options...)
	var out strings.Builder
	cmd := exec.Command(perf, args...)
	cmd.Stderr = &out
	check(t, cmd.Start())
	_, err = ctl.WriteString("ping\n")
	check(t, err)
	check(t, ack.SetReadDeadline(time.Now().Add(10*time.Minute)))
	if _, err := ack.Read(make([]byte, 8)); err != nil {
		cmd.Process.Kill()
		cmd.Wait()
		t.Fatalf("perf %v: %v\n%s", options, err, &out)
	}
	cost := l.perSwitch(t)
	check(t, cmd.Process.Signal(syscall.SIGINT))
	cmd.Wait() // fails, because of the signal
	if n := strings.Count(out.String(), "\n") - strings.Count(out.String(), "<not"); n < 6*min(len(names), 2) {
		t.Fatalf("perf %v counted too little:\n%s", options, &out)
	}
	return cost
}

// fifo returns a new named pipe that is open.
func fifo(t *testing.T) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fifo")
	check(t, syscall.Mkfifo(path, 0o600))
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	check(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// TestSwitchCostPeers measures the time that others add to a context switch, for the table in docs/serve.md. Instructions do not show it: the
// kernel stops all counters of a CPU while it changes those of cgroups.
func TestSwitchCostPeers(t *testing.T) {
	require.ExactPMU(t)
	require.OneCPU(t)
	perf := require.UpstreamPerf(t)
	numbers := []int{10}
	if require.Long() {
		numbers = []int{1, 10, 110, 500}
	}
	var k keeper.Keeper
	check(t, k.Open(func(string) (io.Closer, error) { return io.NopCloser(nil), nil }))
	t.Cleanup(func() { check(t, k.Close()) })
	l := newLab(t)
	t.Logf("%10s %8s %8s %12s %8s %20s", "containers", "without", "bperf", "descriptors", "perf", "perf --bpf-counters")
	for _, n := range numbers {
		l.grow(t, n)
		var took [5]float64
		for i, count := range []func(){
			func() { l.perSwitch(t) }, func() { l.collecting(t, k.Dir()) }, func() { l.describing(t) }, func() { l.inPerf(t, perf) },
			func() { l.inPerf(t, perf, "--bpf-counters") },
		} {
			time.Sleep(3 * time.Second) // see TestSwitchCost
			count()
			// Six events cannot be read in less. Others read nothing when both tasks are in the same cgroup.
			if took[i] = l.nanoseconds - took[0]; took[i] < 500 && n > 1 {
				t.Errorf("%d containers: measurement %d took %.0f ns", n, i, took[i])
			}
		}
		t.Logf("%10d %8.0f %8.0f %12.0f %8.0f %20.0f", n, took[0], took[1], took[2], took[3], took[4])
	}
}
