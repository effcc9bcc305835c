package node

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bperf/bperf/internal/bpfprog"
	"github.com/bperf/bperf/internal/count/process"
	"github.com/bperf/bperf/internal/count/shared"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/serve/container"
	"github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/test/keeper"
	"github.com/bperf/bperf/test/program"
	"github.com/bperf/bperf/test/require"
)

const (
	pages = 200 // that a program of these tests touches
	few   = 20  // most other page faults of a run: its start has one, and a run had one more once, for a reason that is not known
	uid   = "6f1d5c3a-9b2e-4a77-8c15-0d2e4f6a8b90"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits until ok returns true.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not in two minutes: ", what)
		}
	}
}

// start opens a collector, or skips the test on a machine without cgroup v2.
func start(t testing.TB, config Config) *Collector {
	t.Helper()
	require.Root(t)
	if _, err := container.FindDirs(); err != nil {
		t.Skip(err)
	}
	c, err := Open(config)
	check(t, err)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// now returns the counts up to this moment, all cgroups listed.
func now(t testing.TB, c *Collector) *Snapshot {
	t.Helper()
	c.mu.Lock()
	c.last = nil
	if c.cgroups != nil {
		c.cgroups.listed = time.Time{}
	}
	c.mu.Unlock()
	s, err := c.Read()
	check(t, err)
	if s.NoContainers != "" {
		t.Fatal(s.NoContainers)
	}
	return s
}

// find returns the row of a container; nil if there is none.
func find(s *Snapshot, id string) *Container {
	for i := range s.Containers {
		if s.Containers[i].ID == id {
			return &s.Containers[i]
		}
	}
	return nil
}

// newID returns the ID of a container that no other test has.
func newID(t testing.TB, number int) string {
	digits := strconv.FormatInt(time.Now().UnixNano(), 16) + strconv.FormatInt(int64(0x10000+number), 16)
	return strings.Repeat("0", 64-len(digits)) + digits
}

// podDir makes a cgroup for a pod, as the kubelet does, for the time of the test.
func podDir(t testing.TB) string {
	t.Helper()
	require.Root(t)
	dirs, err := container.FindDirs()
	if err != nil {
		t.Skip(err)
	}
	parent, err := os.MkdirTemp(dirs.Cgroups, "bperf-test-kubepods-")
	check(t, err)
	pod := filepath.Join(parent, "pod"+uid)
	check(t, os.Mkdir(pod, 0o755))
	t.Cleanup(func() {
		remove(t, pod)
		remove(t, parent)
	})
	return pod
}

// remove removes a cgroup when its tasks have ended.
func remove(t testing.TB, dir string) {
	t.Helper()
	eventually(t, "the tasks in "+dir+" end", func() bool {
		err := os.Remove(dir)
		if err != nil && !errors.Is(err, syscall.EBUSY) && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		return err == nil || errors.Is(err, os.ErrNotExist)
	})
}

// run runs a program that touches pages, in a cgroup, from its first instruction to its end.
func run(t testing.TB, touch, cgroup string) {
	t.Helper()
	dir, err := os.Open(cgroup)
	check(t, err)
	defer dir.Close()
	cmd := exec.Command(touch)
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// faults returns the page faults of a container.
func faults(t testing.TB, s *Snapshot, id string) uint64 {
	t.Helper()
	c := find(s, id)
	if c == nil {
		t.Fatalf("no container %s", id)
	}
	return c.Readings[0].Value
}

// wantFaults fails the test unless a container has the page faults of runs, of which some touched pages.
func wantFaults(t testing.TB, s *Snapshot, id string, runs, touched uint64) {
	t.Helper()
	if got := faults(t, s, id); got < touched*pages || got > touched*pages+runs*few {
		t.Errorf("%s: %d page faults, want %d and at most %d more in each of %d runs", id, got, touched*pages, few, runs)
	}
}

// TestContainer counts the page faults of a program that runs in a pod's container, and in a cgroup below it.
func TestContainer(t *testing.T) {
	pod, id := podDir(t), newID(t, 0)
	c := start(t, Config{Events: []string{"page-faults:u", "context-switches", "no-such-event"}})
	dir := filepath.Join(pod, id)
	check(t, os.Mkdir(dir, 0o755))
	t.Cleanup(func() { remove(t, dir) })
	if got := find(now(t, c), id); got == nil || got.CPUTime != 0 || got.Ended || got.PodUID != uid || !strings.HasSuffix(dir, got.Path) {
		t.Fatalf("a container in which nothing ran yet: %+v", got)
	}
	touch := program.Program{Body: program.Touch, Times: pages}.Write(t)
	run(t, touch, dir)
	s := now(t, c)
	wantFaults(t, s, id, 1, 1)
	for i, want := range []Event{{"page-faults:u", ""}, {"context-switches", ""}} {
		if s.Events[i] != want {
			t.Errorf("event %d: %+v", i, s.Events[i])
		}
	}
	if e := s.Events[2]; e.Name != "no-such-event" || e.Reason == "" {
		t.Errorf("%+v", e)
	}
	row := find(s, id)
	if row.CPUTime <= 0 || row.Switches == 0 || row.Readings[1].Value == 0 || row.Readings[1].Enabled == 0 || row.Readings[2] != (perfevent.Reading{}) {
		t.Errorf("%+v", row)
	}
	run(t, program.Program{Body: program.Sleep, Times: 20}.Write(t), dir)
	if row := find(now(t, c), id); row.OffCPU[process.Sleeping] < 20*time.Millisecond {
		t.Errorf("after 20 ms of sleep: %+v", row)
	}
	below := filepath.Join(dir, "system.slice", "docker-"+newID(t, 1)+".scope")
	check(t, os.MkdirAll(below, 0o755))
	run(t, touch, below)
	now(t, c) // finds the cgroup while it exists
	remove(t, below)
	remove(t, filepath.Dir(below))
	wantFaults(t, now(t, c), id, 3, 2) // with that of the cgroup below
	if len(s.CPUs) == 0 || !slices.ContainsFunc(s.CPUs, func(c CPU) bool { return c.Readings[0].Value > 0 }) {
		t.Errorf("%+v", s.CPUs)
	}
}

// TestChurn makes containers, runs a program in them and removes them. Counts never fall, and those of ended containers stay.
func TestChurn(t *testing.T) {
	pod := podDir(t)
	c := start(t, Config{Events: []string{"page-faults:u"}})
	touch := program.Program{Body: program.Touch, Times: pages}.Write(t)
	last := make(map[string]Container)
	read := func() *Snapshot {
		t.Helper()
		s := now(t, c)
		for _, one := range s.Containers {
			before := last[one.ID+one.Path]
			if one.CPUTime < before.CPUTime || one.Switches < before.Switches || before.Readings != nil && one.Readings[0].Value < before.Readings[0].Value {
				t.Fatalf("counts fell:\n%+v\n%+v", before, one)
			}
			last[one.ID+one.Path] = one
		}
		return s
	}
	counted := make(map[string]uint64)
	gone := make(map[uint64]bool) // cgroups
	for i := range 10 {
		id := newID(t, i)
		dir := filepath.Join(pod, id)
		check(t, os.Mkdir(dir, 0o755))
		for range 1 + i%2 {
			run(t, touch, dir)
			counted[id]++
		}
		gone[find(read(), id).Cgroup] = true
		remove(t, dir)
		if s := read(); !find(s, id).Ended {
			t.Errorf("%s has not ended", id)
		}
		if i == 5 { // it starts again with the same ID, as docker restart does
			check(t, os.Mkdir(dir, 0o755))
			run(t, touch, dir)
			counted[id]++
			if s := read(); find(s, id).Ended {
				t.Errorf("%s has ended", id)
			}
			remove(t, dir)
		}
	}
	s := read()
	for id, times := range counted {
		wantFaults(t, s, id, times, times)
	}
	eventually(t, "the sums of cgroups that are gone are forgotten", func() bool { // their last threads may still be on their way out
		read()
		c.mu.Lock()
		defer c.mu.Unlock()
		r, err := c.counter.Read()
		check(t, err)
		return !slices.ContainsFunc(r.Sums, func(s process.Sum) bool { return gone[s.ID] })
	})
}

// TestForgets lets the time pass for which names are kept.
func TestForgets(t *testing.T) {
	pod, id := podDir(t), newID(t, 0)
	c := start(t, Config{Events: []string{"page-faults:u"}})
	dir := filepath.Join(pod, id)
	check(t, os.Mkdir(dir, 0o755))
	run(t, program.Program{Body: program.Touch, Times: pages}.Write(t), dir)
	faults(t, now(t, c), id)
	remove(t, dir)
	now(t, c)
	c.mu.Lock()
	defer c.mu.Unlock()
	r, err := c.counter.Read()
	check(t, err)
	check(t, c.cgroups.update(time.Now().Add(container.Keep-time.Minute), r.Sums))
	if len(c.cgroups.past) == 0 {
		t.Error("forgotten too early")
	}
	check(t, c.cgroups.update(time.Now().Add(container.Keep+time.Minute), nil))
	for one := range c.cgroups.past {
		if one.ID == id {
			t.Errorf("%+v is known still", one)
		}
	}
}

// TestUnseen runs a program in cgroups that are gone before they can be found. In a container's they count for it; otherwise their
// switches are a loss.
func TestUnseen(t *testing.T) {
	pod, id := podDir(t), newID(t, 0)
	c := start(t, Config{Events: []string{"page-faults:u"}})
	touch := program.Program{Body: program.Touch, Times: pages}.Write(t)
	lost := func() uint64 {
		s := now(t, c)
		i := slices.IndexFunc(s.Losses, func(l Loss) bool { return l.What == "unknown_cgroup_switches" })
		return s.Losses[i].Count
	}
	unseen := func(dir string) {
		c.mu.Lock() // nobody looks
		defer c.mu.Unlock()
		check(t, os.Mkdir(dir, 0o755))
		run(t, touch, dir)
		remove(t, dir)
	}
	dir := filepath.Join(pod, id)
	check(t, os.Mkdir(dir, 0o755))
	run(t, touch, dir)
	before := lost()
	once := faults(t, now(t, c), id)
	for times := range uint64(3) {
		unseen(filepath.Join(dir, "x"))
		if got, want := faults(t, now(t, c), id), (times+2)*once; got != want {
			t.Errorf("%d page faults, want %d", got, want)
		}
	}
	func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		run(t, touch, dir)
		check(t, os.Mkdir(filepath.Join(dir, "y"), 0o755))
		run(t, touch, filepath.Join(dir, "y"))
		remove(t, filepath.Join(dir, "y"))
		remove(t, dir)
	}()
	s := now(t, c)
	if got, want := faults(t, s, id), 6*once; got != want || !find(s, id).Ended {
		t.Errorf("gone with a cgroup below: %d page faults, want %d", got, want)
	}
	unseen(filepath.Join(filepath.Dir(pod), "z"))
	if after := lost(); after <= before {
		t.Errorf("%d switches are lost, before %d", after, before)
	}
}

// TestSharing counts with the perf events of a session of stat --bpf-counters, and checks that both count the same.
func TestSharing(t *testing.T) {
	pod, id := podDir(t), newID(t, 0)
	var k keeper.Keeper
	check(t, k.Open(func(string) (io.Closer, error) { return io.NopCloser(nil), nil }))
	t.Cleanup(func() { check(t, k.Close()) })
	c := start(t, Config{Events: []string{"page-faults:u", "task-clock"}, Share: k.Dir()})
	dir := filepath.Join(pod, id)
	check(t, os.Mkdir(dir, 0o755))
	t.Cleanup(func() { remove(t, dir) })
	at, err := target.Spec{System: true, Cgroups: []string{dir}}.Resolve()
	check(t, err)
	list, err := event.Host().Parse("page-faults:u")
	check(t, err)
	stat, err := shared.Open(shared.Where{Dir: k.Dir()}, list, at, shared.Options{})
	check(t, err)
	defer stat.Close()
	check(t, stat.Enable())
	run(t, program.Program{Body: program.Touch, Times: pages}.Write(t), dir)
	s := now(t, c)
	if s.NotShared != "" {
		t.Error(s.NotShared)
	}
	cells, err := stat.Read(nil)
	check(t, err)
	var want uint64
	for _, cell := range cells {
		want += cell.Value
	}
	if got := faults(t, s, id); got != want || got < pages {
		t.Errorf("%d page faults, stat counts %d", got, want)
	}
	status, err := shared.Examine(shared.Where{Dir: k.Dir()}, time.Millisecond)
	check(t, err)
	for _, e := range status.Events {
		if want := map[string]int{"page-faults:u": 2, "task-clock": 1}[e.Name]; e.Sessions != want {
			t.Errorf("%d sessions count %s with one perf event for each CPU, want %d", e.Sessions, e.Name, want)
		}
	}
	if len(status.Events) != 2 {
		t.Errorf("%+v", status.Events)
	}
}

// TestPrograms has the kernel count the runs of BPF programs in short windows, while several read.
func TestPrograms(t *testing.T) {
	c := start(t, Config{Events: []string{"task-clock"}, Duty: Duty{Every: 20 * time.Millisecond, For: 10 * time.Millisecond}})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for range 100 {
				if s, err := c.Read(); err != nil || s.Self.Memory == 0 || s.Self.CPUTime == 0 {
					t.Errorf("%+v, %v", s, err)
				}
			}
		})
	}
	readers.Wait()
	var before *Program
	eventually(t, "the program at switches has run in several windows", func() bool {
		s := now(t, c)
		if s.NoPrograms != "" {
			return false
		}
		i := slices.IndexFunc(s.Programs, func(p Program) bool { return p.Name == "on_switch" && c.programs.own[p.ID] != "" })
		if i < 0 {
			t.Fatalf("%+v", s.Programs)
		}
		p := &s.Programs[i]
		if before == nil {
			before = p
		}
		if p.Runs < before.Runs || p.Window < before.Window || p.Time < before.Time {
			t.Fatalf("counts fell: %+v, %+v", before, p)
		}
		return p.Window > before.Window && p.Runs > before.Runs && p.Type == "raw_tracepoint" && p.Tag != "" &&
			s.Self.Programs["on_switch"] > 0 && s.Self.Window >= p.Window && s.Self.PerSwitch > 0 &&
			s.Self.Unfiled > 0 && s.Self.Unfiled < s.Self.Memory
	})
}

// TestOwnPrograms adds windows with programs of the counter, programs of profiles, and one of somebody else.
func TestOwnPrograms(t *testing.T) {
	require.NoKernel(t)
	seen := func(id uint32, name string, took time.Duration) bpfprog.Observed {
		return bpfprog.Observed{Program: &bpfprog.Program{ID: id, Name: name}, Use: bpfprog.Use{Stats: bpfprog.Stats{Runs: 1, RunTime: took}}}
	}
	p := programs{own: map[uint32]string{1: "on_switch"}, ownTime: map[string]time.Duration{}}
	all := &bpfprog.Observation{Window: time.Second, Programs: []bpfprog.Observed{seen(1, "on_switch", 3*time.Millisecond),
		seen(2, "on_sample", time.Millisecond), seen(3, "on_symbol", time.Millisecond), seen(4, "other", time.Second)}}
	p.add(&window{all, map[uint32]bool{1: true, 2: true, 3: true}, 1000})
	if p.ownTime["on_switch"] != 3*time.Millisecond || p.ownTime[profiling] != 2*time.Millisecond || len(p.ownTime) != 2 {
		t.Errorf("%v", p.ownTime)
	}
	if p.perSwitch != 5e-6 {
		t.Errorf("%g s for each context switch", p.perSwitch)
	}
	p.add(&window{&bpfprog.Observation{Window: time.Second}, nil, 0})
	if p.perSwitch != 0 || p.ownTime[profiling] != 2*time.Millisecond {
		t.Errorf("after a window without switches: %g, %v", p.perSwitch, p.ownTime)
	}
}

// TestCloseLeavesNothing checks the descriptors of this process, and that the kernel frees the BPF programs.
func TestCloseLeavesNothing(t *testing.T) {
	require.Root(t)
	before := kernelFiles(t)
	c, err := Open(Config{Events: []string{"page-faults", "task-clock"}, Duty: Duty{Every: time.Second, For: time.Second}})
	check(t, err)
	if _, err := c.Read(); err != nil {
		t.Error(err)
	}
	if open := kernelFiles(t); len(open) <= len(before) {
		t.Errorf("a collector holds %v", open)
	}
	own := c.programs.own
	check(t, c.Close())
	check(t, c.Close())
	if _, err := c.Read(); err != ErrClosed {
		t.Error(err)
	}
	if left := kernelFiles(t); !slices.Equal(left, before) {
		t.Errorf("left behind: %v, before: %v", left, before)
	}
	eventually(t, "the kernel frees the BPF programs", func() bool {
		all, err := bpfprog.ReadAll(bpfprog.Detail{})
		check(t, err)
		return !slices.ContainsFunc(all, func(p *bpfprog.Program) bool { return own[p.ID] != "" })
	})
}

// kernelFiles returns what this process has open of perf events and BPF, sorted.
func kernelFiles(t testing.TB) (names []string) {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	check(t, err)
	for _, one := range all {
		name, err := os.Readlink("/proc/self/fd/" + one.Name())
		if err == nil && (strings.Contains(name, "perf_event") || strings.Contains(name, "bpf") || strings.Contains(name, "socket")) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// TestReadIsCached checks that a snapshot of the last second is returned again.
func TestReadIsCached(t *testing.T) {
	c := start(t, Config{Events: []string{"task-clock"}})
	last := &Snapshot{Time: time.Now().Add(time.Hour)} // the test may be slow
	set := func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.last = last
	}
	set()
	if s, err := c.Read(); s != last || err != nil {
		t.Errorf("%+v, %v", s, err)
	}
	last.Time = time.Now().Add(-fresh)
	set()
	if s, err := c.Read(); s == last || err != nil {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestWithoutCgroups counts the CPUs even where cgroups cannot be read.
func TestWithoutCgroups(t *testing.T) {
	c := start(t, Config{Events: []string{"task-clock"}, Dirs: container.Dirs{Cgroups: filepath.Join(t.TempDir(), "none")}})
	s, err := c.Read()
	check(t, err)
	if !strings.Contains(s.NoContainers, "list the cgroups") || s.Containers != nil || len(s.CPUs) == 0 {
		t.Errorf("%+v", s)
	}
}

func TestConfig(t *testing.T) {
	for _, d := range []Duty{{time.Second, 0}, {0, time.Second}, {time.Second, time.Minute}, {-1, -1}} {
		if _, err := (Config{Duty: d}).withDefaults(); err == nil {
			t.Errorf("%+v", d)
		}
	}
	if c, err := (Config{}).withDefaults(); err != nil || c.Duty != defaultDuty {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestParseEvents(t *testing.T) {
	names := []string{"task-clock", "cpu-clock,page-faults", "{faults,minor-faults}", "task-clock", "cpu-clock:D", "duration_time", "cgroup-switches", "no\x1bsuch"}
	for i := range process.MaxEvents {
		names = append(names, "dummy/name=d"+strconv.Itoa(i)+"/")
	}
	e := parseEvents(event.Host(), names, refuseBeyond(0))
	var got []string
	for _, one := range e.all {
		got = append(got, one.Name+": "+one.Reason)
	}
	for i, want := range []string{"task-clock: ", "cpu-clock: ", "page-faults: ", "faults: ", "minor-faults: ",
		"cpu-clock:D: cpu-clock:D would keep others from the counters of the CPU: leave out the modifiers D and e",
		"duration_time: duration_time is no event of a CPU", "cgroup-switches: cgroup-switches cannot be counted", "no?such: "} {
		if !strings.HasPrefix(got[i], want) {
			t.Errorf("%q, want %q", got[i], want)
		}
	}
	if e.all[8].Reason == "" || strings.ContainsAny(e.all[8].Reason, "\x1b^") {
		t.Errorf("%q", e.all[8].Reason)
	}
	if n := len(e.list.Events()); n != process.MaxEvents || len(e.at) != n {
		t.Errorf("%d events, %v", n, e.at)
	}
	if last := e.all[len(e.all)-1]; !strings.Contains(last.Reason, "one event too many: 16 are possible") {
		t.Errorf("%+v", last)
	}
	e = parseEvents(event.Host(), names[:6], refuseBeyond(3))
	reasons := map[string]string{}
	for _, one := range e.all {
		reasons[one.Name] = one.Reason
	}
	if reasons["page-faults"] != "" || reasons["faults"] != GivenUp || reasons["minor-faults"] != GivenUp || len(e.list.Events()) != 3 {
		t.Errorf("the first three events: %q", reasons)
	}
	if r := reasons["cpu-clock:D"]; r == "" || r == GivenUp {
		t.Errorf("what cannot be counted is not given up: %q", r)
	}
}
