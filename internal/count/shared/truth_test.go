package shared

import (
	"bufio"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/internal/count/direct"
	"github.com/bperf/bperf/internal/target"
	loop "github.com/bperf/bperf/test/program"
)

// The tests here compare events that the kernel counts in the middle of a context switch with direct counting. They count no task
// that ends during the test: some of its last switches would be in neither count or in only one, because the kernel removes its perf
// events at one moment and shared counting ends at another.

// switchEvents are the events to compare. The switch itself counts the first.
var switchEvents = []string{"context-switches", "page-faults", getppid, "context-switches:u"}

func TestSwitches(t *testing.T) {
	dir := sharing(t)
	t.Run("after exits", func(t *testing.T) { switchesAfterExits(t, dir) })
	t.Run("of families", func(t *testing.T) { switchesOfFamilies(t, dir) })
	t.Run("of cgroups", func(t *testing.T) { switchesOfCgroups(t, dir) })
}

// switchesAfterExits counts a shell, and not its children: their last switch leads to the shell, but is not the shell's.
func switchesAfterExits(t *testing.T, dir string) {
	onOneCPU(t)
	shell := exec.Command("sh", "-c", "read go; for i in 1 2 3 4 5 6 7 8 9 10; do $0; $0 & wait; done; echo done; read end", spin.Write(t))
	in, err := shell.StdinPipe()
	check(t, err)
	out, err := shell.StdoutPipe()
	check(t, err)
	check(t, shell.Start())
	t.Cleanup(func() { in.Close(); shell.Wait() })
	for name, s := range map[string]target.Spec{"process": pids(shell.Process.Pid), "thread": tids(shell.Process.Pid)} {
		b := startBoth(t, dir, s, Options{})
		t.Cleanup(func() { b.compare(t, name) })
	}
	fmt.Fprintln(in, "go")
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "done\n" {
		t.Fatalf("the shell said %q (%v)", line, err)
	}
}

// switchesOfFamilies counts processes that start other processes and threads, none of which ends.
func switchesOfFamilies(t *testing.T, dir string) {
	p := startPuppet(t)
	p.run(0, spin.Write(t)) // Go once probes the kernel's features with a child that ends
	inherited := startBoth(t, dir, pids(p.pid), inherit)
	alone := startBoth(t, dir, pids(p.pid), Options{})
	p.thread()
	child := p.puppet(0)
	tid := child.thread()
	thread := startBoth(t, dir, tids(tid), inherit)
	for range 100 {
		p.call(1, 1)
		child.call(1, 2)
		child.call(0, 3)
	}
	inherited.compare(t, "with children")
	alone.compare(t, "without children")
	thread.compare(t, "a thread")
}

// switchesOfCgroups counts a cgroup in which tasks start and end.
func switchesOfCgroups(t *testing.T, dir string) {
	name, group := cgroup(t, "")
	const times, tasks = 20, 10
	for what, p := range map[string]loop.Program{
		"one task":  {},
		"threads":   {Tasks: tasks, Threads: true},
		"processes": {Tasks: tasks},
	} {
		p.Body, p.Times = loop.Sleep, times
		pid, proceed := waiting(t, p)
		join(t, group, pid)
		b := startBoth(t, dir, groups(name), Options{})
		proceed()
		ours := b.compare(t, what)
		if least := times * (1 + uint64(p.Tasks)); ours[0] < least {
			wrong(t, b.ours, "%s: counted %d context switches, want %d at least", what, ours[0], least)
		}
	}
}

// onOneCPU pins this thread, and processes that it starts, to one CPU for the rest of the test.
func onOneCPU(t *testing.T) {
	t.Helper()
	runtime.LockOSThread() // for good: the thread ends with the test
	var set unix.CPUSet
	set.Set(resolve(t, target.Spec{System: true}).CPUs[0])
	check(t, unix.SchedSetaffinity(0, &set))
}

// both counts with a shared and a direct counter.
type both struct {
	ours   *Counter
	direct *direct.Counter
	before [2][]uint64 // ours and direct, at rest
}

// startBoth begins to count a target that is at rest, or soon will be.
func startBoth(t *testing.T, dir string, s target.Spec, o Options) both {
	t.Helper()
	list := parseEvents(t, strings.Join(switchEvents, ","))
	var b both
	for at := resolve(t, s); ; at = resolve(t, s) {
		theirs, err := direct.Open(list, at, o.Options)
		check(t, err)
		ours, err := Open(Where{Dir: dir}, list, at, o)
		check(t, err)
		if resolve(t, s).SameThreads(at) {
			b = both{ours: ours, direct: theirs}
			break
		}
		check(t, theirs.Close())
		check(t, ours.Close())
	}
	t.Cleanup(func() { b.direct.Close(); b.ours.Close() })
	check(t, b.ours.Enable())
	check(t, b.direct.Enable())
	b.before = b.atRest(t)
	return b
}

// atRest reads both counters until the target does nothing between the readings.
func (b both) atRest(t *testing.T) [2][]uint64 {
	t.Helper()
	n := len(switchEvents)
	for ours := totals(t, b.ours, n); ; {
		direct, again := totals(t, b.direct, n), totals(t, b.ours, n)
		if slices.Equal(ours, again) {
			return [2][]uint64{ours, direct}
		}
		ours = again
	}
}

// compare fails if the two counts differ, and returns the shared counts.
func (b both) compare(t *testing.T, what string) (ours []uint64) {
	t.Helper()
	after := b.atRest(t)
	for i, e := range switchEvents {
		got, want := after[0][i]-b.before[0][i], after[1][i]-b.before[1][i]
		if got != want {
			wrong(t, b.ours, "%s: %s: counted %d, and %d directly", what, e, got, want)
		}
		ours = append(ours, got)
	}
	return ours
}
