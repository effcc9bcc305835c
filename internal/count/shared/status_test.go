package shared

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bperf/bperf/internal/count/shared/upstream"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/require"
)

func examine(t *testing.T, dir string) *Status {
	t.Helper()
	s, err := Examine(Where{Dir: dir}, 20*time.Millisecond)
	check(t, err)
	return s
}

// system is all CPUs.
var system = target.Spec{System: true}

// TestExamineNothing reports that nothing is shared, and creates nothing.
func TestExamineNothing(t *testing.T) {
	mounted := bpffs(t)
	empty := bpffs(t)
	check(t, os.Mkdir(empty, 0o700))
	left := bpffs(t)
	check(t, os.Mkdir(left, 0o700))
	p := directory{path: left}
	check(t, p.store(ids{})) // there is no object with the ID 0
	for name, dir := range map[string]string{
		"no parent":    filepath.Join(t.TempDir(), "none", "bperf"),
		"no bpffs":     filepath.Join(t.TempDir(), "bperf"),
		"no directory": mounted,
		"no pin":       empty,
		"no sessions":  left,
	} {
		t.Run(name, func(t *testing.T) {
			want := &Status{Events: []EventStatus{}, Sessions: []SessionStatus{}, Tables: []Table{}, OtherVersions: []string{}}
			before := tree(t, filepath.Dir(filepath.Dir(dir)))
			if diff := cmp.Diff(want, examine(t, dir)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if diff := cmp.Diff(before, tree(t, filepath.Dir(filepath.Dir(dir)))); diff != "" {
				t.Errorf("it changed the directory: %s", diff)
			}
		})
	}
}

// tree returns all paths below a directory.
func tree(t *testing.T, dir string) (paths []string) {
	t.Helper()
	if err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		paths = append(paths, path)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return paths
}

func TestExamineErrors(t *testing.T) {
	noBPFFS := filepath.Join(t.TempDir(), "bperf")
	check(t, os.Mkdir(noBPFFS, 0o700))
	others := bpffs(t)
	check(t, os.Mkdir(others, 0o700))
	check(t, os.Chmod(others, 0o777))
	other := bpffs(t)
	check(t, os.Mkdir(other, 0o700))
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	check(t, err)
	defer m.Close()
	pin := (&directory{path: other}).pin()
	check(t, m.Pin(pin))
	for dir, want := range map[string]string{
		noBPFFS: "bpffs, which is not mounted on " + filepath.Dir(noBPFFS) + ". Try: mount -t bpf",
		others:  "others may change (owner 0, mode -rwxrwxrwx). Remove it",
		other:   "read " + pin + ": ",
	} {
		s, err := Examine(Where{Dir: dir}, time.Millisecond)
		if err == nil || !strings.HasPrefix(err.Error(), "look at the shared counters: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, %v, want an error with %q", s, err, want)
		}
	}
}

// TestExamine examines two sessions, one of which counts a thread.
func TestExamine(t *testing.T) {
	require.AnyArch(t)
	dir := bpffs(t)
	all, thread := resolve(t, system), tids(os.Getpid())
	start := time.Now()
	open(t, dir, "cpu-clock,page-faults:u", system, Options{})
	open(t, dir, "context-switches,cpu-clock", thread, Options{})
	got := examine(t, dir)

	cpus := procfs.FormatCPUList(all.CPUs)
	want := &Status{
		Events: []EventStatus{
			{Name: "cpu-clock", User: true, Kernel: true, CPUs: cpus, Sessions: 2},
			{Name: "page-faults:u", User: true, CPUs: cpus, Sessions: 1},
			{Name: "context-switches", User: true, Kernel: true, CPUs: cpus, Sessions: 1},
		},
		Sessions: []SessionStatus{
			{PID: os.Getpid(), Command: os.Args, Target: "CPU " + cpus, Events: []string{"cpu-clock", "page-faults:u"}},
			{PID: os.Getpid(), Command: os.Args, Target: describeTarget(resolve(t, thread)), Events: []string{"cpu-clock", "context-switches"}},
		},
		Tables: []Table{{"events", 3, 64}, {"sessions", 2, 1024}, {"nodes", 1, 16383}, {"tasks", 1, 1 << 20}, {"cgroups", 0, 16384}},

		OtherVersions: []string{},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreTypes(time.Time{}, &Cost{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, since := range []time.Time{got.Events[0].Since, got.Sessions[0].Since, got.Events[2].Since, got.Sessions[1].Since} {
		if since.Before(start) || since.After(time.Now()) {
			t.Errorf("since %v, which is not between %v and now", since, start)
		}
	}
}

// TestCost measures the cost of context switches, at least of those in Examine, which sleeps.
func TestCost(t *testing.T) {
	dir := bpffs(t)
	open(t, dir, "cpu-clock", system, Options{})
	want := map[string]string{"on_hotplug": "cpuhp_enter"}
	if c := examine(t, dir).Cost; c.PerSwitch() != 0 || !maps.Equal(want, hooks(c)) {
		t.Errorf("a session that counts no tasks has other hooks than %v: %+v", want, c)
	}
	open(t, dir, "cpu-clock", tids(os.Getpid()), Options{})
	c := examine(t, dir).Cost
	maps.Copy(want, map[string]string{
		"on_switch": "sched_switch", "on_newtask": "task_newtask", "on_free": "sched_process_free", "on_rename": "task_rename",
		"on_exit": "sched_process_exit", "on_attach": "cgroup_attach_task"})
	if diff := cmp.Diff(want, hooks(c)); diff != "" {
		t.Errorf("hooks: -want +got:\n%s", diff)
	}
	if c.Window < 20*time.Millisecond || c.CPUs != len(resolve(t, system).CPUs) || c.Switches == 0 || c.PerSwitch() <= 0 || c.Share() <= 0 || c.Share() > 1 {
		t.Errorf("%+v: %f ns per switch, %f of the CPUs", c, c.PerSwitch(), c.Share())
	}
	for _, p := range c.Programs {
		if p.ID == 0 || p.Missed != 0 || p.Name == "on_switch" && (p.Runs == 0 || p.RunTime == 0) {
			t.Errorf("%+v", p)
		}
	}
}

// hooks returns the attached programs with their tracepoints.
func hooks(c *Cost) map[string]string {
	hooks := make(map[string]string)
	for _, p := range c.Programs {
		if p.Hook != "" {
			hooks[p.Name] = p.Hook
		}
	}
	return hooks
}

// TestExamineEnded reports a session that was killed.
func TestExamineEnded(t *testing.T) {
	require.AnyArch(t)
	dir := bpffs(t)
	killed := open(t, dir, "page-faults", system, Options{})
	lives := open(t, dir, "cpu-clock", system, Options{})
	check(t, killed.token.Close())
	s := examine(t, dir)
	if s.Ended != 1 || len(s.Sessions) != 1 || s.Sessions[0].Events[0] != "cpu-clock" {
		t.Errorf("%d have ended, these live: %+v", s.Ended, s.Sessions)
	}
	if e := s.Events; len(e) != 2 || e[0].Name != "page-faults" || e[0].Sessions != 0 || e[1].Sessions != 1 {
		t.Errorf("events: %+v", e)
	}
	check(t, lives.token.Close())
	if s := examine(t, dir); s.Ended != 2 || len(s.Sessions) != 0 || s.Cost != nil {
		t.Errorf("%d have ended, these live: %+v", s.Ended, s.Sessions)
	}
}

// TestExamineLost adds up the losses of all CPUs.
func TestExamineLost(t *testing.T) {
	require.AnyArch(t)
	dir := bpffs(t)
	c := open(t, dir, "cpu-clock", system, Options{})
	cpus, err := ebpf.PossibleCPU()
	check(t, err)
	for key := range uint32(5) {
		lost := make([]uint64, cpus)
		for cpu := range lost {
			lost[cpu] = uint64(key) + 1
		}
		check(t, c.o.maps[countersMapLost].Put(key, lost))
	}
	n := uint64(cpus)
	want := Lost{Readings: n, Tasks: 2 * n, Sums: 3 * n, Cgroups: 4 * n, Switches: 5 * n}
	if got := examine(t, dir).Lost; got != want {
		t.Errorf("lost %+v, want %+v", got, want)
	}
	if got, err := c.Lost(); got != want || err != nil {
		t.Errorf("lost %+v, %v, want %+v", got, err, want)
	}
	if got, err := open(t, dir, "cpu-clock", system, Options{}).Lost(); got != (Lost{}) || err != nil {
		t.Errorf("a new session lost %+v, %v, want nothing", got, err)
	}
}

func TestLostString(t *testing.T) {
	require.NoKernel(t)
	for want, lost := range map[string]Lost{
		"":                     {},
		"7 readings of events": {Readings: 7},
		"1 readings of events; 2 children, as there was no room for more tasks; 3 differences, as there was no sum to add " +
			"them to; 4 searches for the counts of cgroups that are too deep; 5 context switches to tasks that are counted, as the kernel did not show them": {Readings: 1, Tasks: 2, Sums: 3, Cgroups: 4, Switches: 5},
	} {
		if got := lost.String(); got != want {
			t.Errorf("%+v is %q, want %q", lost, got, want)
		}
	}
}

// TestExamineOtherVersions ignores pins of other versions.
func TestExamineOtherVersions(t *testing.T) {
	require.AnyArch(t)
	dir := bpffs(t)
	open(t, dir, "cpu-clock", system, Options{})
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	check(t, err)
	defer m.Close()
	check(t, m.Pin(filepath.Join(dir, "counters-other")))
	s := examine(t, dir)
	if diff := cmp.Diff([]string{"counters-other"}, s.OtherVersions); diff != "" || len(s.Sessions) != 1 {
		t.Errorf("%d sessions, other versions: -want +got:\n%s", len(s.Sessions), diff)
	}
}

// TestSharers counts the sessions of each event. One event has none, and perf counts one apart.
func TestSharers(t *testing.T) {
	dir := bpffs(t)
	where := Where{Dir: dir, AttrMap: filepath.Join(filepath.Dir(dir), "perf_attr_map")}
	c, err := Open(where, parseEvents(t, "page-faults,sched:sched_switch/name=other/,cpu-clock"), resolve(t, system), Options{})
	check(t, err)
	defer c.Close()
	open(t, dir, "cpu-clock", system, Options{})
	killed := open(t, dir, "page-faults", system, Options{})
	check(t, killed.token.Close())
	expect := func(apart bool) {
		t.Helper()
		got, err := c.Sharers()
		check(t, err)
		if diff := cmp.Diff([]Sharers{{1, false}, {0, false}, {2, apart}}, got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		s, err := Examine(where, time.Millisecond)
		check(t, err)
		for _, e := range s.Events {
			if e.Apart != (apart && e.Name == "cpu-clock") {
				t.Errorf("%+v", e)
			}
		}
	}
	expect(false)
	leader := registerLeader(t, where.AttrMap, perfdata.Attr{Type: perfdata.TypeSoftware})
	expect(true)
	check(t, leader.Close())
	for apart := true; apart; time.Sleep(time.Millisecond) { // the kernel frees the leader a little later
		got, err := c.Sharers()
		check(t, err)
		apart = got[2].Apart
	}
	expect(false)
}

// registerLeader starts a leader for an event as perf would.
func registerLeader(t *testing.T, path string, attr perfdata.Attr) *upstream.Leader {
	t.Helper()
	attrs, err := upstream.Create(path)
	check(t, err)
	defer attrs.Close()
	check(t, attrs.Lock())
	attr = attrs.Attr(&attr)
	e, err := perfevent.Open(&attr, perfevent.Where{Thread: perfevent.AnyThread})
	check(t, err)
	defer e.Close() // the leader keeps it open
	l, err := upstream.StartLeader(&attr, map[int]*perfevent.Event{0: e})
	check(t, err)
	check(t, attrs.Register(l))
	return l
}

// TestExamineLeavesNothing checks that nothing is left after the last session.
func TestExamineLeavesNothing(t *testing.T) {
	require.AnyArch(t)
	dir := bpffs(t)
	c := open(t, dir, "cpu-clock", system, Options{})
	known := pinned(t, dir)
	examine(t, dir)
	check(t, c.Close())
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("%v, %v", entries, err)
	}
	expectGone(t, known)
}

func TestCostIsDivided(t *testing.T) {
	require.NoKernel(t)
	c := Cost{Window: time.Second, CPUs: 4, Switches: 1000, Programs: []ProgramCost{
		{Name: "on_switch", RunTime: 100 * time.Microsecond}, {Name: "sync", RunTime: 300 * time.Microsecond}}}
	if got := c.PerSwitch(); got != 100 {
		t.Errorf("%f ns per switch, want 100", got)
	}
	if got := c.Share(); got != 0.0001 {
		t.Errorf("%f of the CPUs, want 0.0001", got)
	}
	c.Switches = 0
	if got := c.PerSwitch(); got != 0 {
		t.Errorf("%f ns per switch without any, want 0", got)
	}
}
