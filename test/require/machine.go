package require

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// Paranoid sets kernel.perf_event_paranoid for the rest of a test. The setting applies to the whole machine, so tests of other packages that
// set it wait until the test ends.
func Paranoid(t testing.TB, level int) {
	t.Helper()
	Root(t)
	lock(t, "paranoid", unix.LOCK_EX)
	const file = "/proc/sys/kernel/perf_event_paranoid"
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strconv.Itoa(level)), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.WriteFile(file, before, 0); err != nil {
			t.Error(err)
		}
	})
}

// HostileNames is for tests that create processes and cgroups whose names have several lines. Until the test ends, tests that call
// PlainNames wait, also those of other packages.
func HostileNames(t testing.TB) {
	t.Helper()
	lock(t, "names", unix.LOCK_EX)
}

// PlainNames is for tests that compare, line by line, the output of other programs about the whole machine. It keeps tests that call
// HostileNames from running.
func PlainNames(t testing.TB) {
	t.Helper()
	lock(t, "names", unix.LOCK_SH)
}

// lock locks a resource of the machine for the rest of a test, exclusively (unix.LOCK_EX) or shared (unix.LOCK_SH). It waits until the lock
// is free.
func lock(t testing.TB, what string, how int) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(os.TempDir(), "bperf-test-"+what+".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() }) // unlocks it
	for {
		if err := unix.Flock(int(f.Fd()), how); err == nil {
			return
		} else if err != unix.EINTR {
			t.Fatalf("lock %s: %v", f.Name(), err)
		}
	}
}
