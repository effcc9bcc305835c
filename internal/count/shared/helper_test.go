package shared

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/test/keeper"
	loop "github.com/bperf/bperf/test/program"
	"github.com/bperf/bperf/test/require"
)

// A puppet's thread 0 is the first of its process. The main goroutine is on that thread while packages are initialized, and may be on any other one
// when main starts.
func init() {
	if len(os.Args) > 2 && os.Args[1] == "helper" {
		runtime.LockOSThread()
	}
}

// The test binary contains its helper programs: with "helper" as first argument, the second names the program.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "helper" {
		helpers[os.Args[2]](os.Args[3:])
		os.Exit(0)
	}
	code := m.Run()
	if err := common.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "end the common session:", err)
		code = 1
	}
	os.Exit(code)
}

var helpers = map[string]func(args []string){
	"puppet": func([]string) { newPuppetry().obey() },
	"host":   func(args []string) { hostSessions(args[0]) },
	"report": func(args []string) { reportOpen(args[0]) },
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

// bpffs mounts a separate bpffs for the test and returns the directory in it through which its sessions find each other.
func bpffs(t testing.TB) string {
	t.Helper()
	require.Root(t)
	mount := t.TempDir()
	check(t, unix.Mount("bpf", mount, "bpf", 0, ""))
	t.Cleanup(func() {
		if err := unix.Unmount(mount, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return filepath.Join(mount, "bperf")
}

// sharing returns the common directory of all tests that do not test how sharing begins and ends. A session of
// this process keeps the shared objects, so that the kernel verifies the BPF programs only once, not for each test.
func sharing(t testing.TB) (dir string) {
	t.Helper()
	require.Root(t)
	check(t, common.Open(keepOwn))
	return common.Dir()
}

// common has the directory for sharing. The first call of sharing opens it, and TestMain closes it.
var common keeper.Keeper

// keepOwn opens a session that counts in this process.
func keepOwn(dir string) (io.Closer, error) {
	list, err := event.Host().Parse("dummy")
	if err != nil {
		return nil, err
	}
	own, err := tids(os.Getpid()).Resolve()
	if err != nil {
		return nil, err
	}
	return Open(Where{Dir: dir}, list, own, Options{})
}

const getppid = "syscalls:sys_enter_getppid"

func parseEvents(t testing.TB, events string) event.List {
	t.Helper()
	require.Tracefs(t)
	list, err := event.Host().Parse(events)
	check(t, err)
	return list
}

func resolve(t testing.TB, s target.Spec) target.Target {
	t.Helper()
	resolved, err := s.Resolve()
	check(t, err)
	return resolved
}

// open opens a session. As stat does, it repeats that until no thread of the target has started while it opened.
func open(t testing.TB, dir, events string, s target.Spec, o Options) *Counter {
	t.Helper()
	list := parseEvents(t, events)
	for {
		at := resolve(t, s)
		c, err := Open(Where{Dir: dir}, list, at, o)
		check(t, err)
		if !resolve(t, s).SameThreads(at) {
			check(t, c.Close())
			continue
		}
		t.Cleanup(func() { c.Close() })
		for i := range list.Events() {
			if err := c.Err(i); err != nil {
				t.Fatalf("event %d: %v", i, err)
			}
		}
		return c
	}
}

// start opens a session and starts it.
func start(t testing.TB, dir, events string, s target.Spec, o Options) *Counter {
	t.Helper()
	c := open(t, dir, events, s, o)
	check(t, c.Enable())
	return c
}

// totals reads a counter and adds up each event; it fails if one was not counted all the time.
func totals(t testing.TB, c count.Counter, events int) []uint64 {
	t.Helper()
	cells, err := c.Read(nil)
	check(t, err)
	sums := make([]uint64, events)
	for _, cell := range cells {
		if cell.Running != cell.Enabled {
			t.Errorf("cell %+v is scaled", cell)
		}
		sums[cell.Event] += cell.Value
	}
	return sums
}

// expect checks the count of a counter of one event.
func expect(t testing.TB, c count.Counter, what string, want uint64) {
	t.Helper()
	if got := totals(t, c, 1)[0]; got != want {
		wrong(t, c, "%s: counted %d, want %d", what, got, want)
	}
}

// wrong is Errorf for counts that should be exact. They cannot be exact on a machine that hides processes from BPF and, with them,
// switches to other tasks. Then the counter must report lost switches.
func wrong(t testing.TB, c count.Counter, format string, args ...any) {
	t.Helper()
	if c, ok := c.(*Counter); ok && hidesProcesses(t, c) {
		lost, err := c.Lost()
		check(t, err)
		if lost.Switches > 0 {
			t.Skipf(format+". This kernel hides processes, and %d switches", append(args, lost.Switches)...)
		}
	}
	t.Errorf(format, args...)
}

// lostOf returns the losses of a session, without switches if the kernel hides processes.
func lostOf(t testing.TB, c *Counter) Lost {
	t.Helper()
	lost, err := c.Lost()
	check(t, err)
	if hidesProcesses(t, c) {
		lost.Switches = 0
	}
	return lost
}

// hidesProcesses reports whether BPF iterators do not show the first process.
func hidesProcesses(t testing.TB, c *Counter) bool {
	t.Helper()
	tasks, err := c.o.findTasks()
	check(t, err)
	_, found := tasks[1]
	return !found
}

func pids(pid ...int) target.Spec       { return target.Spec{PIDs: pid} }
func tids(tid ...int) target.Spec       { return target.Spec{TIDs: tid} }
func groups(name ...string) target.Spec { return target.Spec{System: true, Cgroups: name} }

var inherit = Options{Options: count.Options{Inherit: true}}

// spin is a program for tests that only need a process.
var spin = loop.Program{Body: loop.Spin, Times: 1}

// caller returns a program that calls getppid the given number of times.
func caller(t testing.TB, times uint64) string {
	t.Helper()
	return loop.Program{Body: loop.GetPPID, Times: times}.Write(t)
}

// cgroup makes a cgroup with a unique name, and returns its path in the hierarchy and its directory.
func cgroup(t testing.TB, below string) (name, dir string) {
	t.Helper()
	require.Root(t)
	root := resolve(t, groups("/")).Cgroups[0].Path
	dir, err := os.MkdirTemp(filepath.Join(root, below), "bperf-test-")
	check(t, err)
	t.Cleanup(func() { removeCgroup(t, dir) })
	name, err = filepath.Rel(root, dir)
	check(t, err)
	return name, dir
}

// removeCgroup removes a cgroup after its tasks have ended.
func removeCgroup(t testing.TB, dir string) {
	t.Helper()
	err := os.Remove(dir)
	for deadline := time.Now().Add(time.Minute); errors.Is(err, syscall.EBUSY) && time.Now().Before(deadline); err = os.Remove(dir) {
		time.Sleep(time.Millisecond)
	}
	if err != nil {
		t.Error(err)
	}
}

func join(t testing.TB, dir string, pid int) {
	t.Helper()
	check(t, os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0))
}
