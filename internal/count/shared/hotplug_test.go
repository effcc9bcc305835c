package shared

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/test/require"
)

// waitForCPU waits until the events of a session are open on a CPU, or are closed.
func waitForCPU(t testing.TB, c *Counter, cpu int, open bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; runtime.Gosched() {
		s, err := readSlots(c.o)
		check(t, err)
		if s.table[c.events[0].slot].has(cpu) == open {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after a minute, the events of CPU %d are open: %v, want %v", cpu, !open, open)
		}
	}
}

// waitForJoin waits until the session itself has handled that a CPU came online.
func waitForJoin(t testing.TB, c *Counter, cpu int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !slices.Equal(c.Joined(), []int{cpu}); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("after a minute, CPUs %v have joined, want %d", c.Joined(), cpu)
		}
	}
}

// TestCPUsComeAndGo takes a CPU offline and brings it back, twice, while tasks work there and elsewhere.
func TestCPUsComeAndGo(t *testing.T) {
	cpus := resolve(t, system).CPUs
	last := cpus[len(cpus)-1]
	turn := require.SwitchCPU(t, last)
	dir := bpffs(t)
	name, group := cgroup(t, "")
	p := startPuppet(t)
	t.Cleanup(p.end) // before the cgroup is removed
	join(t, group, p.pid)
	call := func(on string, times uint64) {
		t.Helper()
		var set unix.CPUSet
		for _, cpu := range cpus {
			if (cpu == last) == (on == "last") {
				set.Set(cpu)
			}
		}
		check(t, unix.SchedSetaffinity(p.pid, &set))
		p.call(0, times)
	}
	later := Options{Options: count.Options{LaterCPUs: true}}
	sessions := map[string]*Counter{
		"process": start(t, dir, getppid, pids(p.pid), inherit),
		"system":  start(t, dir, getppid, system, later),
		"cgroup":  start(t, dir, getppid, groups(name), later),
	}
	want := make(map[string]uint64)
	work := func(on string, times uint64) {
		t.Helper()
		call(on, times)
		for what := range sessions {
			want[what] += times
		}
	}
	work("last", 1)
	for round := range 2 {
		turn("0")
		for what := range sessions {
			waitForCPU(t, sessions[what], last, false)
		}
		for what, s := range map[string]struct {
			Options
			of []string
		}{"system": {later, nil}, "cgroup": {later, []string{name}}, "process": {Options: inherit}} {
			spec := groups(s.of...)
			if what == "process" {
				spec = pids(p.pid)
			}
			sessions[fmt.Sprintf("%s without the CPU, round %d", what, round)] = start(t, dir, getppid, spec, s.Options)
		}
		work("first", 20)
		turn("1")
		for what := range sessions {
			waitForCPU(t, sessions[what], last, true)
			waitForJoin(t, sessions[what], last)
		}
		work("last", 300)
		work("first", 4000)
	}
	for what, c := range sessions {
		expect(t, c, what, want[what])
	}
	cells, err := sessions["system"].Read(nil)
	check(t, err)
	for _, cell := range cells {
		if cell.CPU == last && cell.Value != 601 {
			t.Errorf("counted %d on the CPU that came and went, want 601", cell.Value)
		}
	}
}
