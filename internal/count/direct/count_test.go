package direct

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/require"
)

// runCommand counts a command from its exec on and returns its status and counts.
func runCommand(t *testing.T, list event.List, o count.Options, helper ...string) (target.Status, []uint64) {
	t.Helper()
	cmd, err := target.StartCommand(append([]string{"/proc/self/exe", "helper"}, helper...))
	check(t, err)
	t.Cleanup(func() { cmd.Kill() })
	o.EnableOnExec = true
	c := openCounter(t, list, resolve(t, target.Spec{TIDs: []int{cmd.PID()}}), o)
	check(t, cmd.Exec())
	status := cmd.Wait()
	return status, totals(t, c, len(list.Events()))
}

func TestCommandIsCountedFromItsExec(t *testing.T) {
	require.Root(t)
	// The helper makes no other call of getppid, and neither does the runtime of the child that waits.
	_, got := runCommand(t, single(getppidEvent(t, "")), count.Options{Inherit: true}, "getppid", "12345")
	if want := []uint64{12345}; !cmp.Equal(got, want) {
		t.Errorf("counted %d, want %d", got, want)
	}
}

func TestInherit(t *testing.T) {
	require.Root(t)
	for _, inherit := range []bool{true, false} {
		_, got := runCommand(t, single(getppidEvent(t, "")), count.Options{Inherit: inherit}, "children", "3", "1000")
		want := uint64(0)
		if inherit {
			want = 3000
		}
		if got[0] != want {
			t.Errorf("inherit %v: counted %d, want %d", inherit, got[0], want)
		}
	}
}

// countOrder counts the calls that a puppet makes for one order.
func countOrder(t *testing.T, list event.List, o count.Options, p *puppet, order string) []uint64 {
	t.Helper()
	c := openProcess(t, list, p.pid(), o)
	check(t, c.Enable())
	p.order("%s", order)
	check(t, c.Disable())
	p.order("each 1000") // not counted
	return totals(t, c, len(list.Events()))
}

func TestProcess(t *testing.T) {
	require.Root(t)
	p := startPuppet(t, 4)
	list := single(getppidEvent(t, ""), getppidEvent(t, fmt.Sprintf("common_pid == %d", p.pid())))
	got := countOrder(t, list, count.Options{Inherit: true}, p, "each 100")
	if got[0] != 400 || got[1] > 100 {
		t.Errorf("four threads: counted %d, want 400, and at most 100 with a filter for the first thread", got)
	}
}

func TestThreadsStartedLater(t *testing.T) {
	require.Root(t)
	p := startPuppet(t, 1)
	list := single(getppidEvent(t, ""))
	got := countOrder(t, list, count.Options{Inherit: true}, p, "spawn 70")
	if got[0] != 70 {
		t.Errorf("a new thread: counted %d, want 70", got[0])
	}
}

func TestTwoThousandThreads(t *testing.T) {
	require.AnyArch(t)
	require.Root(t)
	p := startPuppet(t, 2000)
	spec := target.Spec{PIDs: []int{p.pid()}}
	before := resolve(t, spec)
	got := countOrder(t, single(getppidEvent(t, "")), count.Options{Inherit: true}, p, "each 3")
	if got[0] != 6000 || len(before.Threads) < 2000 {
		t.Errorf("%d threads: counted %d, want 6000", len(before.Threads), got[0])
	}
}

func TestGroupIsReadAtOnce(t *testing.T) {
	require.Root(t)
	p := startPuppet(t, 2)
	list := event.List{{Events: []*event.Event{
		software("task-clock", perfdata.SoftwareTaskClock), getppidEvent(t, ""), software("page-faults", perfdata.SoftwarePageFaults),
	}}}
	c := openProcess(t, list, p.pid(), count.Options{Inherit: true})
	check(t, c.Enable())
	p.order("each 50")
	cells, err := c.Read(nil)
	check(t, err)
	again, err := c.Read(nil)
	check(t, err)
	sum, threads := uint64(0), len(cells)/3
	for i, cell := range cells {
		if cell.Event != i/threads || cell.Thread != i%threads || cell.CPU != count.None || cell.Cgroup != count.None {
			t.Errorf("cell %d is %+v: want events in order, and their threads in order", i, cell)
		}
		leader := cells[i%threads]
		if cell.Enabled != leader.Enabled || cell.Running != leader.Running {
			t.Errorf("cell %+v has other times than its leader's %+v", cell, leader)
		}
		if again[i].Event != cell.Event || again[i].Thread != cell.Thread || again[i].Value < cell.Value {
			t.Errorf("the second reading %+v does not follow %+v", again[i], cell)
		}
		if cell.Event == 1 {
			sum += cell.Value
		}
	}
	if sum != 100 {
		t.Errorf("counted %d getppid in a group, want 100", sum)
	}
}

// makeCgroup makes a cgroup for a test, in the hierarchy that perf events use.
func makeCgroup(t testing.TB, name string) target.Cgroup {
	t.Helper()
	root := resolve(t, target.Spec{System: true, Cgroups: []string{"/"}}).Cgroups[0]
	name = fmt.Sprintf("bperf-test-%d-%s", os.Getpid(), name)
	dir := filepath.Join(root.Path, name)
	check(t, os.Mkdir(dir, 0o755))
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	return target.Cgroup{Name: name, Path: dir}
}

func (p *puppet) join(group target.Cgroup) {
	p.t.Helper()
	check(p.t, os.WriteFile(group.Path+"/cgroup.procs", []byte(strconv.Itoa(p.pid())), 0))
}

// The counts of processes, and of cgroups, add up to the count of the system. A filter restricts that to
// the same processes, because other processes call getppid, too.
func TestPartsAddUpToTheSystem(t *testing.T) {
	require.Root(t)
	a, b := makeCgroup(t, "a"), makeCgroup(t, "b")
	var puppets []*puppet
	var pids []int
	var any []string
	for i := range 5 {
		p := startPuppet(t, 1)
		p.join([]target.Cgroup{a, b}[i%2])
		puppets, pids = append(puppets, p), append(pids, p.pid())
		for _, thread := range resolve(t, target.Spec{PIDs: []int{p.pid()}}).Threads {
			any = append(any, fmt.Sprintf("common_pid == %d", thread.TID))
		}
	}
	ours := getppidEvent(t, strings.Join(any, " || "))
	all := getppidEvent(t, "")
	system := openCounter(t, single(ours, all), resolve(t, target.Spec{System: true}), count.Options{})
	processes := openCounter(t, single(all), resolve(t, target.Spec{PIDs: pids}), count.Options{Inherit: true})
	cgroups := openCounter(t, single(all), resolve(t, target.Spec{System: true, Cgroups: []string{a.Name, b.Name}}), count.Options{})
	counters := []*Counter{system, processes, cgroups}
	for _, c := range counters {
		check(t, c.Enable())
	}
	for i, p := range puppets {
		p.order("each %d", 100*(i+1))
	}
	for _, c := range counters {
		check(t, c.Disable())
	}

	cells, err := cgroups.Read(nil)
	check(t, err)
	var byCgroup [2]uint64
	for _, cell := range cells {
		byCgroup[cell.Cgroup] += cell.Value
	}
	if want := [2]uint64{100 + 300 + 500, 200 + 400}; byCgroup != want {
		t.Errorf("cgroups: counted %d, want %d", byCgroup, want)
	}
	if got := totals(t, processes, 1)[0]; got != 1500 {
		t.Errorf("processes: counted %d, want 1500", got)
	}
	got := totals(t, system, 2)
	if got[0] != 1500 || got[1] < 1500 {
		t.Errorf("system: counted %d for these processes and %d in all, want 1500 and at least as many", got[0], got[1])
	}
}

// The switches of the system include those of the cgroup.
func TestContextSwitchesOfCgroup(t *testing.T) {
	require.Root(t)
	group := makeCgroup(t, "switches")
	p := startPuppet(t, 4)
	p.join(group)
	list := single(software("context-switches", perfdata.SoftwareContextSwitches))
	inner := openCounter(t, list, resolve(t, target.Spec{System: true, Cgroups: []string{group.Name}}), count.Options{})
	outer := openCounter(t, list, resolve(t, target.Spec{System: true}), count.Options{})
	check(t, outer.Enable())
	check(t, inner.Enable())
	for range 20 {
		p.order("each 1") // four threads are woken
	}
	check(t, inner.Disable())
	check(t, outer.Disable())
	cgroup, system := totals(t, inner, 1)[0], totals(t, outer, 1)[0]
	if cgroup < 20 || cgroup > system {
		t.Errorf("%d context switches of the cgroup, %d of the system: want at least 20, and no more than of the system", cgroup, system)
	}
}

func TestCPUs(t *testing.T) {
	require.Root(t)
	online := resolve(t, target.Spec{System: true}).CPUs
	last := online[len(online)-1]
	clock := software("cpu-clock", perfdata.SoftwareCPUClock)
	pinned := software("dummy", perfdata.SoftwareDummy)
	pinned.CPUs = online[:1] // as for a hybrid PMU
	c := openCounter(t, single(clock, pinned), resolve(t, target.Spec{System: true}), count.Options{})
	cells, err := c.Read(nil)
	check(t, err)
	if len(cells) != len(online)+1 || cells[len(online)-1].CPU != last || cells[len(online)].CPU != online[0] {
		t.Errorf("cells %+v: want one per CPU for the first event, and CPU %d alone for the second", cells, online[0])
	}
	c = openCounter(t, single(clock), resolve(t, target.Spec{CPUs: []int{last}}), count.Options{})
	if cells, err = c.Read(nil); err != nil || len(cells) != 1 || cells[0].CPU != last {
		t.Errorf("cells %+v (%v), want one, on CPU %d", cells, err, last)
	}
}

func TestMemberThatIsNotSupported(t *testing.T) {
	require.Root(t)
	p := startPuppet(t, 1)
	nonsense := software("nonsense", 999)
	for name, group := range map[string][]*event.Event{
		"leader": {nonsense, getppidEvent(t, ""), software("dummy", perfdata.SoftwareDummy)},
		"member": {getppidEvent(t, ""), nonsense, software("dummy", perfdata.SoftwareDummy)},
	} {
		t.Run(name, func(t *testing.T) {
			got := countOrder(t, event.List{{Events: group}}, count.Options{Inherit: true}, p, "each 10")
			if got[0]+got[1] != 10 {
				t.Errorf("counted %d, want 10 in the event that is supported", got)
			}
		})
	}
}

// TestManyEvents opens so many groups that the events of all CPUs are opened in parallel. The kernel refuses the leader of one group.
func TestManyEvents(t *testing.T) {
	require.Root(t)
	const refused = manySets / 2
	for _, spec := range []target.Spec{{System: true}, {System: true, Cgroups: []string{"/"}}} {
		var list event.List
		for i := range manySets {
			leader := software("dummy", perfdata.SoftwareDummy)
			if i == refused {
				leader = software("nonsense", 999)
			}
			list = append(list, event.Group{Events: []*event.Event{leader, software("cpu-clock", perfdata.SoftwareCPUClock)}})
		}
		before, at := openFiles(t), resolve(t, spec)
		c, err := Open(list, at, count.Options{})
		check(t, err)
		for i := range list.Events() {
			if err := c.Err(i); (err != nil) != (i == 2*refused) {
				t.Errorf("event %d: %v", i, err)
			}
		}
		check(t, c.Enable())
		cells, err := c.Read(nil)
		check(t, err)
		for i, cell := range cells {
			if i > 0 && cell.Event < cells[i-1].Event || cell.Enabled == 0 || cell.Running != cell.Enabled {
				t.Errorf("%v, cell %d of %d: %+v", spec.Cgroups, i, len(cells), cell)
			}
		}
		if want := (len(list.Events()) - 1) * len(at.CPUs); len(cells) != want {
			t.Errorf("%v: %d cells, want %d", spec.Cgroups, len(cells), want)
		}
		check(t, c.Close())
		if after := openFiles(t); after != before {
			t.Errorf("%v: %d files are open after Close, before Open it was %d", spec.Cgroups, after, before)
		}
	}
}

// openFiles returns the number of files that this process has open.
func openFiles(t *testing.T) int {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	check(t, err)
	return len(files)
}

func TestReadDoesNotAllocate(t *testing.T) {
	require.Root(t)
	events := event.List{
		{Events: []*event.Event{software("cpu-clock", perfdata.SoftwareCPUClock), software("dummy", perfdata.SoftwareDummy)}},
		{Events: []*event.Event{software("context-switches", perfdata.SoftwareContextSwitches)}},
	}
	c := openCounter(t, events, resolve(t, target.Spec{System: true}), count.Options{})
	cells, err := c.Read(nil)
	check(t, err)
	allocs := testing.AllocsPerRun(10, func() {
		if cells, err = c.Read(cells[:0]); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 0 {
		t.Errorf("%v allocations per Read, want none", allocs)
	}
}

// A command can also inherit its counters from the thread that forks it. They start when the command is executed, and
// do not start in that thread.
func TestCommandThatInherits(t *testing.T) {
	require.Root(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	at := resolve(t, target.Spec{TIDs: []int{syscall.Gettid()}})
	c := openCounter(t, single(getppidEvent(t, "")), at, count.Options{Inherit: true, EnableOnExec: true})
	getppid(10)
	cmd, err := target.RunCommand([]string{"/proc/self/exe", "helper", "getppid", "4321"})
	check(t, err)
	cmd.Wait()
	getppid(10)
	if got := totals(t, c, 1)[0]; got != 4321 {
		t.Errorf("counted %d, want 4321", got)
	}
}
