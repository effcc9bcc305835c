package cli

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/bperf/bperf/test/require"
)

// TestIgnoredTarget checks that every command that measures prints a note if a process and CPUs are given.
func TestIgnoredTarget(t *testing.T) {
	require.AnyArch(t)
	require.Root(t)
	pid := strconv.Itoa(os.Getpid())
	for _, command := range [][]string{{"stat"}, {"record", "-o", filepath.Join(t.TempDir(), "perf.data")}, {"profile"}} {
		args := append(command, "-p", pid, "-a", "-e", "cpu-clock", "--timeout", "10")
		if r := run(t, bperf(args...)); r.status != 0 || !strings.Contains(r.stderr, "-a and -C are ignored") {
			t.Errorf("bperf %s: %+v", strings.Join(args, " "), r)
		}
	}
}
