package require

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// Paranoid sets kernel.perf_event_paranoid for the rest of a test. It is the whole machine's: tests of other packages
// that set it meanwhile wait.
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

// HostileNames lets a test have processes and cgroups whose names are several lines. Tests that call PlainNames do not run meanwhile, of any package.
func HostileNames(t testing.TB) {
	t.Helper()
	lock(t, "names", unix.LOCK_EX)
}

// PlainNames is for tests that compare what others print of the whole machine line by line: see HostileNames.
func PlainNames(t testing.TB) {
	t.Helper()
	lock(t, "names", unix.LOCK_SH)
}

// lock locks something of the machine's, alone (unix.LOCK_EX) or with others (LOCK_SH), for the rest of a test. It waits until it can.
func lock(t testing.TB, what string, how int) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(os.TempDir(), "bperf-test-"+what+".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() }) // and so unlocks it
	for {
		if err := unix.Flock(int(f.Fd()), how); err == nil {
			return
		} else if err != unix.EINTR {
			t.Fatalf("lock %s: %v", f.Name(), err)
		}
	}
}
