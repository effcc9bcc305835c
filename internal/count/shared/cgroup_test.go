package shared

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/test/require"
)

func TestDeepCgroups(t *testing.T) {
	require.AnyArch(t)
	dir := sharing(t)
	p := startPuppet(t)
	top, at := cgroup(t, "")
	name, middle := top, ""
	const depth = 40
	for level := range depth {
		if level == depth/2 {
			middle = name
		}
		name, at = cgroup(t, name)
	}
	t.Cleanup(p.end) // before the cgroups are removed
	all := start(t, dir, getppid, groups(top, middle, name), Options{})
	join(t, at, p.pid)
	p.call(0, 7)
	expectGroups(t, all, 7, 7, 7)
	middleAlone := start(t, dir, getppid, groups(middle), Options{})
	p.call(0, 10)
	expectGroups(t, all, 17, 17, 17)
	expect(t, middleAlone, "session on one of them", 10)
}

// expectGroups reads a counter of one event for cgroups.
func expectGroups(t testing.TB, c *Counter, want ...uint64) {
	t.Helper()
	cells, err := c.Read(nil)
	check(t, err)
	got := make([]uint64, len(want))
	for _, cell := range cells {
		got[cell.Cgroup] += cell.Value
	}
	for i := range want {
		if got[i] != want[i] {
			wrong(t, c, "cgroup %d: counted %d, want %d", i, got[i], want[i])
		}
	}
}

// TestCgroupsMadeLater counts new cgroups as part of the cgroups in which they are made.
func TestCgroupsMadeLater(t *testing.T) {
	dir := sharing(t)
	p := startPuppet(t)
	top, at := cgroup(t, "")
	a := start(t, dir, getppid, groups(top), Options{})
	join(t, at, p.pid)
	p.call(0, 1)
	below, at := cgroup(t, top)
	join(t, at, p.pid)
	p.call(0, 20)
	b := start(t, dir, getppid, groups(below), Options{})
	p.call(0, 300)
	belowThat, at := cgroup(t, below)
	t.Cleanup(p.end) // before the cgroups are removed
	join(t, at, p.pid)
	p.call(0, 4000)
	c := start(t, dir, getppid, groups(top, belowThat), Options{})
	check(t, b.Disable())
	p.call(0, 50000)
	expect(t, a, "session on the first", 54321)
	expect(t, b, "session on the second", 4300)
	expectGroups(t, c, 50000, 50000)
}

func TestCgroupsV1(t *testing.T) {
	require.AnyArch(t)
	root := require.CgroupV1(t)
	dir := bpffs(t)
	p := startPuppet(t)
	first, at := cgroup(t, "")
	second, below := cgroup(t, first)
	t.Cleanup(p.end) // before the cgroups are removed
	if filepath.Dir(at) != root {
		t.Fatalf("the cgroup is %s, want one in %s", at, root)
	}
	join(t, at, p.pid)
	c := start(t, dir, getppid, groups(first, second), Options{})
	p.call(0, 1)
	join(t, below, p.pid)
	p.call(0, 20)
	expectGroups(t, c, 21, 20)
	other := start(t, dir, getppid, groups(first), Options{})
	p.call(0, 300)
	expectGroups(t, c, 321, 320)
	expect(t, other, "another session", 300)
}

// TestPartOfTheHierarchy shows a session only the part of the hierarchy below a cgroup, as in a cgroup namespace.
func TestPartOfTheHierarchy(t *testing.T) {
	require.AnyArch(t)
	dir := bpffs(t)
	name, at := cgroup(t, "")
	below, _ := cgroup(t, name)
	part := t.TempDir()
	check(t, unix.Mount(at, part, "", unix.MS_BIND, ""))
	t.Cleanup(func() { check(t, unix.Unmount(part, unix.MNT_DETACH)) })
	target := resolve(t, groups(below))
	target.Cgroups[0].Path = filepath.Join(part, filepath.Base(below))
	_, err := Open(Where{Dir: dir}, parseEvents(t, getppid), target, Options{})
	if want := "count cgroup " + below + ": this process is in a cgroup namespace and "; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got error %v, want %q", err, want)
	}
	expectEmpty(t, dir)
}

func TestCgroupThatIsGone(t *testing.T) {
	require.AnyArch(t)
	dir := bpffs(t)
	name, at := cgroup(t, "")
	gone := resolve(t, groups(name))
	check(t, os.Remove(at))
	_, err := Open(Where{Dir: dir}, parseEvents(t, getppid), gone, Options{})
	if want := "count cgroup " + name + ": stat " + at + ": no such file or directory"; err == nil || err.Error() != want {
		t.Errorf("got error %v, want %q", err, want)
	}
	expectEmpty(t, dir)
	check(t, os.Mkdir(at, 0o755)) // to be removed
}
