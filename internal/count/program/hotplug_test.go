package program

import (
	"testing"
	"time"

	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/test/require"
)

// TestCPUComesBack takes a CPU offline and brings it back. Then it counts a program that runs there.
func TestCPUComesBack(t *testing.T) {
	turn := require.SwitchCPU(t, 1)
	prog, target := loadLoop(t, 1000)
	c := tracing(t, "cpu-clock", target)
	check(t, c.Enable())
	there := func() result {
		t.Helper()
		check(t, perfevent.OnCPU(1, func() error { run(t, prog, 20); return nil }))
		return read(t, c, 0)
	}
	before := there()
	turn("0")
	turn("1")
	for deadline := time.Now().Add(time.Minute); ; {
		r := there()
		if r.events[0].Value < before.events[0].Value {
			t.Fatalf("counted %d ns, and then %d", before.events[0].Value, r.events[0].Value)
		}
		if r.events[0].Value > before.events[0].Value {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after a minute, %d ns are still all that was counted, in %d runs", r.events[0].Value, r.runs)
		}
	}
}
