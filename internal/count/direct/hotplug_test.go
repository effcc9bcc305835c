package direct

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/require"
)

// TestCPUsComeAndGo takes a CPU offline and brings it back, twice, while a task works there and elsewhere.
func TestCPUsComeAndGo(t *testing.T) {
	system := target.Spec{System: true}
	cpus := resolve(t, system).CPUs
	last := cpus[len(cpus)-1]
	turn := require.SwitchCPU(t, last)
	group := makeCgroup(t, "hotplug")
	p := startPuppet(t, 1)
	t.Cleanup(p.end) // before the cgroup is removed
	p.join(group)
	getppid, clock := getppidEvent(t, ""), software("cpu-clock", perfdata.SoftwareCPUClock)
	list := event.List{{Events: []*event.Event{getppid, clock}}, {Events: []*event.Event{getppid}}}
	start := func(s target.Spec) *Counter {
		c := openCounter(t, list, resolve(t, s), count.Options{LaterCPUs: true})
		check(t, c.Enable())
		return c
	}
	ofCgroup := target.Spec{System: true, Cgroups: []string{group.Name}}
	counters := map[string]*Counter{"system": start(system), "cgroup": start(ofCgroup)}
	want := make(map[string]uint64)
	work := func(on func(cpu int) bool, times uint64) {
		t.Helper()
		var set unix.CPUSet
		for _, cpu := range cpus {
			if on(cpu) {
				set.Set(cpu)
			}
		}
		for _, thread := range resolve(t, target.Spec{PIDs: []int{p.pid()}}).Threads {
			check(t, unix.SchedSetaffinity(thread.TID, &set))
		}
		p.order("each %d", times)
		for what := range counters {
			want[what] += times
		}
	}
	onLast, onOthers := func(cpu int) bool { return cpu == last }, func(cpu int) bool { return cpu != last }
	work(onLast, 1)
	for round := range 2 {
		turn("0")
		waitForCPU(t, counters, last, false)
		counters[fmt.Sprint("without the CPU, round ", round)] = start(system)
		counters[fmt.Sprint("cgroup without the CPU, round ", round)] = start(ofCgroup)
		work(onOthers, 20)
		turn("1")
		waitForCPU(t, counters, last, true)
		work(onLast, 300)
		work(onOthers, 4000)
	}
	for what, c := range counters {
		if joined := c.Joined(); !slices.Equal(joined, []int{last}) {
			t.Errorf("%s: CPUs %v have joined, want %d", what, joined, last)
		}
		check(t, c.Disable())
		cells, err := c.Read(nil)
		check(t, err)
		var sums [3]uint64
		for _, cell := range cells {
			sums[cell.Event] += cell.Value
			if cell.Running != cell.Enabled {
				t.Errorf("%s: cell %+v is scaled", what, cell)
			}
			if cell.Event == 0 && cell.CPU == last && what == "system" && cell.Value < 601 {
				t.Errorf("counted %d on the CPU that came and went, want 601 at least", cell.Value)
			}
		}
		// Other processes call getppid, too, but not in the cgroup.
		if got := sums[0]; got < want[what] || c.opener.target.Cgroups != nil && got > want[what] || sums[2] != got {
			t.Errorf("%s: counted %d and, alone, %d, want %d", what, got, sums[2], want[what])
		}
	}
}

// TestCPUComesBackAtOnce takes a CPU offline and brings it back before the counter can handle that.
func TestCPUComesBackAtOnce(t *testing.T) {
	cpus := resolve(t, target.Spec{System: true}).CPUs
	last := cpus[len(cpus)-1]
	turn := require.SwitchCPU(t, last)
	clock := software("cpu-clock", perfdata.SoftwareCPUClock)
	list := event.List{{Events: []*event.Event{clock, clock, clock}}}
	c := openCounter(t, list, target.Target{CPUs: []int{last}}, count.Options{})
	check(t, c.Enable())
	before, err := c.Read(nil)
	check(t, err)
	c.mu.Lock() // followCPUs handles no message
	turn("0")
	gone := slices.Clone(c.cells)
	check(t, c.update(&c.sets[0], time.Now()))
	turn("1")
	check(t, c.update(&c.sets[0], time.Now()))
	for i := range c.cells {
		if got := c.cells[i]; got.Value < before[i].Value || got.Enabled < before[i].Enabled {
			t.Errorf("read %+v, then %+v of the CPU that is gone", gone[i], got)
		}
	}
	kept := slices.Clone(c.cells)
	c.mu.Unlock()
	for deadline := time.Now().Add(time.Minute); ; runtime.Gosched() {
		after, err := c.Read(nil)
		check(t, err)
		if !slices.ContainsFunc(after, func(cell count.Cell) bool { return cell.Value <= kept[cell.Event].Value }) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("after a minute, the counts of the CPU that came back stand still at %+v", after)
		}
	}
}

// waitForCPU waits until the events of all counters are open on a CPU, or all are closed.
func waitForCPU(t testing.TB, counters map[string]*Counter, cpu int, open bool) {
	t.Helper()
	done := func(c *Counter) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return !slices.ContainsFunc(c.sets, func(s set) bool { return s.cpu == cpu && (s.events != nil) != open })
	}
	for what, c := range counters {
		for deadline := time.Now().Add(time.Minute); !done(c); runtime.Gosched() {
			if time.Now().After(deadline) {
				t.Fatalf("%s: after a minute, the events of CPU %d are open: %v, want %v", what, cpu, !open, open)
			}
		}
	}
}
