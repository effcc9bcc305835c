package perfevent_test

import (
	"os/exec"
	"runtime"
	"testing"

	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/test/require"
)

// TestOnCPUWhileOffline calls OnCPU while a CPU is offline. When the CPU is back online, a process that the thread starts may use it.
func TestOnCPUWhileOffline(t *testing.T) {
	require.Guest(t)
	runtime.LockOSThread() // until the thread ends
	before := processors(t)
	t.Cleanup(func() { // runs after all CPUs are back online
		if after := processors(t); before != after {
			t.Errorf("nproc printed %s before, and %s after OnCPU", before, after)
		}
	})
	require.OneCPU(t)
	if err := perfevent.OnCPU(0, func() error { return nil }); err != nil {
		t.Error(err)
	}
}

// processors returns the output of nproc(1): the number of CPUs that a process started by this thread may use.
func processors(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("nproc").Output()
	if err != nil {
		t.Error(err)
	}
	return string(out)
}
