package node

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/serve/container"
	"github.com/bperf/bperf/test/program"
	"github.com/bperf/bperf/test/require"
)

const (
	pages = 200 // that a program of these tests touches
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
	empty := program.Program{Body: program.Spin, Times: 1}.Write(t)
	run(t, empty, dir)
	start := faults(t, now(t, c), id) // of a program that touches nothing
	run(t, touch, dir)
	s := now(t, c)
	if got, want := faults(t, s, id), 2*start+pages; got != want {
		t.Errorf("%d page faults, want %d", got, want)
	}
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
	below := filepath.Join(dir, "system.slice", "docker-"+newID(t, 1)+".scope")
	check(t, os.MkdirAll(below, 0o755))
	run(t, touch, below)
	now(t, c) // finds the cgroup while it exists
	remove(t, below)
	remove(t, filepath.Dir(below))
	if got, want := faults(t, now(t, c), id), 3*start+2*pages; got != want {
		t.Errorf("with a cgroup below: %d page faults, want %d", got, want)
	}
	if len(s.CPUs) == 0 || !slices.ContainsFunc(s.CPUs, func(c CPU) bool { return c.Readings[0].Value > 0 }) {
		t.Errorf("%+v", s.CPUs)
	}
}
