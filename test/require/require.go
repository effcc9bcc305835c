// Package require says what a test needs of the machine it runs on. What is missing is set up where that is
// possible; otherwise the test is skipped, saying what it would have needed, unless the machine is one that
// must have it: under CI (CI is set) root is a must, and in a guest whatever BPERF_REQUIRE lists
// ("pmu,trampolines").
package require

import (
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// must reports whether this machine was promised to have the thing.
func must(thing string) bool {
	return slices.Contains(strings.Split(os.Getenv("BPERF_REQUIRE"), ","), thing)
}

func missing(t testing.TB, fatal bool, format string, args ...any) {
	t.Helper()
	if fatal {
		t.Fatalf("this machine should have it, but: "+format, args...)
	}
	t.Skipf(format, args...)
}

// Root is for tests that need the rights to count everything.
func Root(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		missing(t, os.Getenv("CI") != "" || must("root"), "needs root")
	}
}

// PMU is for tests that need hardware counters: in the arm64 guest cycles and instructions, one of each per
// instruction and nanosecond.
func PMU(t testing.TB) {
	t.Helper()
	Root(t)
	for _, dir := range []string{"cpu", "armv8_pmuv3_0", "armv8_pmuv3", "cpu_core"} {
		if _, err := os.Stat("/sys/bus/event_source/devices/" + dir); err == nil {
			return
		}
	}
	missing(t, must("pmu"), "needs a PMU")
}

// Tracefs mounts tracefs where it is not and returns where it is.
func Tracefs(t testing.TB) string {
	t.Helper()
	Root(t)
	const dir = "/sys/kernel/tracing"
	if _, err := os.Stat(dir + "/events"); err == nil {
		return dir
	}
	if err := unix.Mount("tracefs", dir, "tracefs", 0, ""); err != nil {
		t.Fatalf("mount tracefs: %v", err)
	}
	return dir
}
