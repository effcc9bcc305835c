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
	lock, err := os.OpenFile(filepath.Join(os.TempDir(), "bperf-test-paranoid.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
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
		lock.Close() // and so unlocks it
	})
}
