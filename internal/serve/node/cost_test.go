package node

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/keeper"
	"github.com/bperf/bperf/test/program"
	"github.com/bperf/bperf/test/require"
)

// costEvents are six events that each need a hardware counter. A guest's CPU has seven; the seventh measures the cost.
const costEvents = "cycles,instructions,cycles:u,instructions:u,cycles:k,instructions:k"

// yields is how often each of two programs lets the other run.
const yields = 10_000

// lab measures the instructions of a context switch between two programs.
type lab struct {
	clock *perfevent.Event // instructions of CPU 0, the only one
	yield string           // the program
	once  string           // a program that ends at once
	pod   string           // cgroup of a pod
	dirs  []string         // cgroups of its containers; the first two run the programs
	ids   []string         // of the containers

	nanoseconds float64 // for each context switch of the last measurement; an instruction takes one in an exact guest
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{pod: podDir(t), yield: program.Program{Body: program.Yield, Times: yields, Wait: true}.Write(t),
		once: program.Program{Body: program.Spin, Times: 1}.Write(t)}
	var err error
	attr := perfdata.Attr{Config: unix.PERF_COUNT_HW_INSTRUCTIONS, Flags: perfdata.AttrPinned, ReadFormat: perfevent.ReadFormatTimes}
	l.clock, err = perfevent.Open(&attr, perfevent.Where{Thread: perfevent.AnyThread, CPU: 0})
	check(t, err)
	t.Cleanup(func() { l.clock.Close() })
	return l
}

// grow makes containers until there are n.
func (l *lab) grow(t *testing.T, n int) {
	t.Helper()
	for i := len(l.dirs); i < n; i++ {
		id := newID(t, i)
		dir := filepath.Join(l.pod, id)
		check(t, os.Mkdir(dir, 0o755))
		t.Cleanup(func() { remove(t, dir) })
		l.dirs, l.ids = append(l.dirs, dir), append(l.ids, id)
	}
}

// busy returns the cgroups that run the two programs.
func (l *lab) busy() (one, other string) {
	switch len(l.dirs) {
	case 0:
		return l.pod, l.pod
	case 1:
		return l.dirs[0], l.dirs[0]
	}
	return l.dirs[0], l.dirs[1]
}

// perSwitch returns the instructions of the machine for each context switch between the two programs. They have real-time priority, so
// nothing else runs until they end.
func (l *lab) perSwitch(t *testing.T) float64 {
	t.Helper()
	in, release, err := os.Pipe()
	check(t, err)
	defer in.Close()
	defer release.Close()
	one, other := l.busy()
	first, second := l.waiting(t, in, one), l.waiting(t, in, other)
	before, err := l.clock.Read()
	check(t, err)
	began := time.Now()
	check(t, release.Close()) // both wake up at once
	check(t, first.Wait())
	check(t, second.Wait())
	l.nanoseconds = float64(time.Since(began)) / (2 * yields)
	after, err := l.clock.Read()
	check(t, err)
	if d := after.Sub(before); d.Running != d.Enabled || d.Value == 0 {
		t.Fatalf("the clock did not count all the time: %+v", d)
	}
	return float64(after.Value-before.Value) / (2 * yields)
}

// waiting starts the program in a cgroup, and returns when it waits for the end of in.
func (l *lab) waiting(t *testing.T, in *os.File, cgroup string) *exec.Cmd {
	t.Helper()
	dir, err := os.Open(cgroup)
	check(t, err)
	defer dir.Close()
	cmd := exec.Command(l.yield)
	cmd.Stdin = in
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	check(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() }) // fails after its end
	attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}
	check(t, unix.SchedSetAttr(cmd.Process.Pid, &attr, 0))
	eventually(t, "the program waits", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
		check(t, err)
		return strings.Contains(string(stat), ") S ")
	})
	return cmd
}

// collecting returns what perSwitch returns while a collector counts, and checks that it counts these switches for the containers.
func (l *lab) collecting(t *testing.T, share string) float64 {
	t.Helper()
	c, err := Open(Config{Events: []string{costEvents}, Share: share, Duty: Duty{Every: time.Hour, For: time.Millisecond}})
	check(t, err)
	defer func() { check(t, c.Close()) }()
	eventually(t, "the window with statistics of BPF programs ends", func() bool { return now(t, c).NoPrograms == "" })
	for _, dir := range l.dirs {
		run(t, l.once, dir) // so that the container has a sum
	}
	before := now(t, c)
	if len(before.Containers) < len(l.dirs) || before.NotShared != "" {
		t.Fatalf("%d containers, want %d; %s", len(before.Containers), len(l.dirs), before.NotShared)
	}
	for _, e := range before.Events {
		if e.Reason != "" {
			t.Fatalf("%+v", e)
		}
	}
	c.mu.Lock() // nothing of the collector but its programs runs
	cost := l.perSwitch(t)
	c.mu.Unlock()
	if n := l.switches(now(t, c)) - l.switches(before); n < 2*yields && len(l.ids) > 0 {
		t.Fatalf("%d context switches of the containers, want %d", n, 2*yields)
	}
	return cost
}

// switches returns the context switches of the busy containers.
func (l *lab) switches(s *Snapshot) (n uint64) {
	for i := range min(len(l.ids), 2) {
		n += find(s, l.ids[i]).Switches
	}
	return n
}

// TestSwitchCost measures the instructions that the collector adds to a context switch. With 110 and with 500 containers, they must be as
// many as with 10.
func TestSwitchCost(t *testing.T) {
	require.ExactPMU(t)
	require.OneCPU(t)
	numbers := []int{0, 10, 110}
	if require.Long() {
		numbers = []int{0, 1, 10, 110, 500}
	}
	var k keeper.Keeper
	check(t, k.Open(func(string) (io.Closer, error) { return io.NopCloser(nil), nil }))
	t.Cleanup(func() { check(t, k.Close()) })
	l := newLab(t)
	added := make(map[int]float64)
	t.Logf("%10s %8s %8s", "containers", "without", "bperf")
	for _, n := range numbers {
		l.grow(t, n)
		// Context switches can cost more for a second after events were closed (perf_sched_delayed in kernel/events/core.c).
		time.Sleep(3 * time.Second) // takes no time in this guest
		bare := l.perSwitch(t)
		added[n] = l.collecting(t, k.Dir()) - bare
		t.Logf("%10d %8.0f %8.0f", n, bare, added[n])
		if n > 10 && added[n] > 1.05*added[10] {
			t.Errorf("%d containers: %.0f instructions for each context switch, with 10 they are %.0f", n, added[n], added[10])
		}
	}
	if added[10] < 500 { // six events cannot be read in less
		t.Errorf("10 containers: %.0f instructions for each context switch: nothing is counted", added[10])
	}
}
