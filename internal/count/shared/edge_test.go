package shared

import (
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/count/direct"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/target"
	loop "github.com/bperf/bperf/test/program"
	"github.com/bperf/bperf/test/require"
)

// startSpinner starts a process that hardly ever leaves the last CPU, so that there are few switches at which its counters could
// be read. From then on a guest runs at half its speed.
func startSpinner(t testing.TB) (pid, cpu int) {
	t.Helper()
	require.Root(t)
	cpus := resolve(t, system).CPUs
	cpu = cpus[len(cpus)-1]
	cmd := exec.Command(loop.Program{Body: loop.Spin, Times: 1 << 62}.Write(t))
	check(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	var set unix.CPUSet
	set.Set(cpu)
	check(t, unix.SchedSetaffinity(cmd.Process.Pid, &set))
	return cmd.Process.Pid, cpu
}

// pinTest pins a test to the first CPU.
func pinTest(t testing.TB) {
	t.Helper()
	runtime.LockOSThread() // and never unlocks: the thread ends with the test
	var set unix.CPUSet
	set.Set(resolve(t, target.Spec{System: true}).CPUs[0])
	check(t, unix.SchedSetaffinity(0, &set))
}

// TestWindows counts the time of a process that is on its CPU when counting starts and when it stops. A shared counter must count no less
// than a direct counter of a shorter window, and no more than one of a longer window.
func TestWindows(t *testing.T) {
	dir := sharing(t)
	name, group := cgroup(t, "")
	pid, cpu := startSpinner(t)
	join(t, group, pid)
	for name, s := range map[string]target.Spec{
		"process": pids(pid),
		"thread":  tids(pid),
		"CPU":     {CPUs: []int{cpu}},
		"system":  system,
		"cgroup":  groups(name),
	} {
		t.Run(name, func(t *testing.T) {
			pinTest(t)
			shared := open(t, dir, clocks, s, Options{})
			const windows = 5
			var disturbed []string
			deadline := time.Now().Add(time.Minute)
			for right := 0; right < windows; {
				wrongs, switches, ran := countWindow(t, shared, resolve(t, s), cpu)
				switch {
				case len(wrongs) == 0 && ran:
					right++
					continue
				case ran && switches == 0:
					wrong(t, shared, "without a context switch on CPU %d: counted %s", cpu, strings.Join(wrongs, "; "))
					return
				}
				// At a switch, the two counters read the clock at different moments. A virtual machine can lose its CPU between the two.
				disturbed = append(disturbed, wrongs...)
				if time.Now().After(deadline) {
					check(t, shared.o.syncCPUs([]int{cpu}, syncTracks, 0)) // sync detects a switch that the kernel did not show
					wrong(t, shared, "%d of %d windows are right; of others: counted %s", right, windows, strings.Join(disturbed, "; "))
					return
				}
			}
		})
	}
}

const clocks = "task-clock,cpu-clock"

// countWindow counts for some milliseconds. It returns the wrong counts, the number of context switches on a CPU during that time, and
// whether the target ran there in the shorter window.
func countWindow(t *testing.T, shared *Counter, at target.Target, cpu int) (wrong []string, switches uint64, ran bool) {
	t.Helper()
	list := parseEvents(t, clocks)
	onCPU := openDirect(t, parseEvents(t, "context-switches"), resolve(t, target.Spec{CPUs: []int{cpu}}))
	defer onCPU.Close()
	longer, shorter := openDirect(t, list, at), openDirect(t, list, at)
	defer longer.Close()
	defer shorter.Close()
	before := totals(t, shared, 2)
	all := []count.Counter{onCPU, longer, shared, shorter}
	for _, c := range all {
		check(t, c.Enable())
	}
	time.Sleep(2 * time.Millisecond)
	for _, c := range slices.Backward(all) {
		check(t, c.Disable())
	}
	after, least, most := totals(t, shared, 2), values(t, shorter, 2), values(t, longer, 2)
	switches, ran = values(t, onCPU, 1)[0], least[0] > 0
	slack := uint64(0)
	if switches > 0 { // there are some instructions between the moments at which the two counters handle a switch
		slack = uint64(200 * time.Microsecond)
	}
	for i, e := range list.Events() {
		if got := after[i] - before[i]; got+slack < least[i] || got > most[i]+slack {
			wrong = append(wrong, fmt.Sprintf("%d ns of %s, want %d to %d", got, e.Name, least[i], most[i]))
		}
	}
	return wrong, switches, ran
}

// values adds up the values of a direct counter. It ignores the times, which are wrong for cgroups if other events count the CPU.
func values(t testing.TB, c count.Counter, events int) []uint64 {
	t.Helper()
	cells, err := c.Read(nil)
	check(t, err)
	sums := make([]uint64, events)
	for _, cell := range cells {
		sums[cell.Event] += cell.Value
	}
	return sums
}

func openDirect(t testing.TB, list event.List, at target.Target) *direct.Counter {
	t.Helper()
	c, err := direct.Open(list, at, count.Options{})
	check(t, err)
	return c
}

// TestDisabledCountsNothing lets the target run while the counter is disabled: before, between and after the windows.
func TestDisabledCountsNothing(t *testing.T) {
	dir := sharing(t)
	p := startPuppet(t)
	c := open(t, dir, getppid, pids(p.pid), inherit)
	p.call(0, 1)
	expect(t, c, "before", 0)
	check(t, c.Enable())
	check(t, c.Enable()) // changes nothing
	p.call(0, 20)
	expect(t, c, "enabled", 20)
	check(t, c.Disable())
	check(t, c.Disable())
	p.call(0, 300)
	expect(t, c, "disabled", 20)
	check(t, c.Enable())
	p.call(0, 4000)
	expect(t, c, "enabled again", 4020)
}

// TestChildrenBornWhileDisabled counts such children as soon as their parents are counted.
func TestChildrenBornWhileDisabled(t *testing.T) {
	dir := sharing(t)
	p := startPuppet(t)
	c := open(t, dir, getppid, pids(p.pid), inherit)
	child := p.puppet(0)
	grandchild := child.puppet(0)
	child.call(0, 1)
	check(t, c.Enable())
	child.call(0, 20)
	grandchild.call(0, 300)
	expect(t, c, "children", 320)
}
