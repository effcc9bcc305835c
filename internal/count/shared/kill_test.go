package shared

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/bperf/bperf/test/require"
)

// pinned reads the pinned IDs of a directory.
func pinned(t testing.TB, dir string) ids {
	t.Helper()
	known, err := (&directory{path: dir}).load()
	check(t, err)
	return known
}

// left returns the objects with these IDs that still exist.
func left(known ids) (there []string) {
	add := func(what string, id uint32, err error) {
		if !errors.Is(err, fs.ErrNotExist) {
			there = append(there, fmt.Sprintf("%s %d", what, id))
		}
	}
	for i, id := range known.Maps {
		m, err := ebpf.NewMapFromID(ebpf.MapID(id))
		m.Close()
		add("map "+mapNames[i], id, err)
	}
	for i, id := range known.Programs {
		p, err := ebpf.NewProgramFromID(ebpf.ProgramID(id))
		p.Close()
		add("program "+programNames[i], id, err)
	}
	for i, id := range append(known.Links[:], known.Hotplug) {
		l, err := link.NewFromID(link.ID(id))
		if err == nil {
			l.Close()
		}
		add("link of "+append(hookNames[:], countersProgOnHotplug)[i], id, err)
	}
	return there
}

// expectGone waits until the objects are gone: the kernel frees them a little later than the last session closes them.
func expectGone(t testing.TB, known ids) {
	t.Helper()
	there := left(known)
	for deadline := time.Now().Add(time.Minute); len(there) > 0 && time.Now().Before(deadline); there = left(known) {
		time.Sleep(time.Millisecond)
	}
	if len(there) > 0 {
		t.Errorf("there still are %q", there)
	}
}

func expectEmpty(t testing.TB, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	check(t, err)
	if len(entries) > 0 {
		t.Errorf("there still is %v", entries)
	}
}

// TestNothingIsLeftBehind closes or kills the last session.
func TestNothingIsLeftBehind(t *testing.T) {
	dir := bpffs(t)
	pid, _ := waiting(t, spin)
	name, _ := cgroup(t, "")
	t.Run("closed", func(t *testing.T) {
		a := start(t, dir, getppid, pids(pid), inherit)
		b := start(t, dir, "context-switches", system, Options{})
		c := start(t, dir, "page-faults", groups(name), Options{})
		known := pinned(t, dir)
		if got := left(known); len(got) != len(known.Maps)+len(known.Programs)+len(known.Links)+1 {
			t.Errorf("of what is shared there are only %q", got)
		}
		check(t, a.Close())
		check(t, c.Close())
		check(t, b.Close())
		expectGone(t, known)
		expectEmpty(t, dir)
	})
	t.Run("killed", func(t *testing.T) {
		h := startHost(t, dir)
		h.start(getppid, pids(pid), inherit)
		h.start("context-switches", system, Options{})
		h.start("page-faults", groups(name), Options{})
		known := pinned(t, dir)
		h.kill()
		expectGone(t, known)
	})
	t.Run("after one was killed", func(t *testing.T) {
		c := start(t, dir, getppid, pids(pid), inherit)
		known := pinned(t, dir)
		check(t, c.Close())
		expectGone(t, known)
		expectEmpty(t, dir)
	})
}

// TestHooksGo lets sessions on CPUs, which need no hooks, outlive sessions that need them.
func TestHooksGo(t *testing.T) {
	dir := bpffs(t)
	pid, _ := waiting(t, spin)
	all := start(t, dir, "task-clock", system, Options{})
	for _, killed := range []bool{false, true} {
		h := startHost(t, dir)
		one := start(t, dir, "task-clock", pids(pid), inherit)
		h.start("task-clock", pids(pid), inherit)
		known := pinned(t, dir)
		check(t, one.Close())
		if got := left(known); len(got) != len(known.Maps)+len(known.Programs)+len(known.Links)+1 {
			t.Errorf("while a session needs them, there are only %q", got)
		}
		h.kill()
		expectGone(t, ids{Links: known.Links})
		if got := left(ids{Maps: known.Maps, Programs: known.Programs, Hotplug: known.Hotplug}); len(got) != len(known.Maps)+len(known.Programs)+1 {
			t.Errorf("killed %v: of what the last session uses there is only %q", killed, got)
		}
	}
	check(t, all.Close())
	expectEmpty(t, dir)
}

// TestKilledSessions checks that the surviving sessions continue with correct counts.
func TestKilledSessions(t *testing.T) {
	require.AnyArch(t)
	dir := bpffs(t)
	p := startPuppet(t)
	h := startHost(t, dir) // the first session creates everything
	h.start(getppid+",page-faults", pids(p.pid), inherit)
	above := start(t, dir, getppid, pids(p.pid), inherit)
	other := startHost(t, dir)
	other.start(getppid, pids(p.pid), inherit)
	below := start(t, dir, getppid, pids(p.pid), Options{})

	p.call(0, 1)
	h.kill()
	p.call(0, 20)
	other.kill()
	p.call(0, 300)
	next := start(t, dir, getppid, pids(p.pid), inherit) // sweeps
	p.call(0, 4000)
	child := p.puppet(0)
	child.call(0, 50000)
	expect(t, above, "the one before", 54321)
	expect(t, below, "the one below", 4321)
	expect(t, next, "the next", 54000)
}
