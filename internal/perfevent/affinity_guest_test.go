package perfevent_test

import (
	"os/exec"
	"runtime"
	"testing"

	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/test/require"
)

// TestOnCPUWhileOffline calls OnCPU while a CPU is offline: when that is back, a process that the thread starts may use it, too.
func TestOnCPUWhileOffline(t *testing.T) {
	require.Guest(t)
	runtime.LockOSThread() // up to the end of the thread
	before := processors(t)
	t.Cleanup(func() { // CPUs are back
		if after := processors(t); before != after {
			t.Errorf("nproc printed %s before, and %s after OnCPU", before, after)
		}
	})
	require.OneCPU(t)
	if err := perfevent.OnCPU(0, func() error { return nil }); err != nil {
		t.Error(err)
	}
}

// processors is what nproc(1) prints: how many CPUs a process that is started by this thread may use.
func processors(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("nproc").Output()
	if err != nil {
		t.Error(err)
	}
	return string(out)
}
