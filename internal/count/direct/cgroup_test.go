package direct

import (
	"testing"
	"time"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/test/require"
)

// TestCgroupTimes counts the root cgroup, to which some CPUs may never switch from another. The value of cpu-clock is
// the time for which it ran, so it checks the kernel's times, however long the test takes.
func TestCgroupTimes(t *testing.T) {
	require.Guest(t) // where nothing else counts on the same CPUs
	require.Root(t)
	events, err := event.Host().Parse("cpu-clock,cpu-clock,cpu-clock")
	if err != nil {
		t.Fatal(err)
	}
	root, err := target.Spec{System: true, Cgroups: []string{"/"}}.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second begins with the kernel's state after the first
		c, err := Open(events, root, count.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		longer := time.Now()
		if err := c.Enable(); err != nil {
			t.Fatal(err)
		}
		shorter := time.Now()
		time.Sleep(50 * time.Millisecond)
		least := time.Since(shorter)
		if err := c.Disable(); err != nil {
			t.Fatal(err)
		}
		most := time.Since(longer)
		cells, err := c.Read(nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, cell := range cells {
			// The kernel's two clocks differ by less than a percent.
			within := func(ns uint64) bool { return float64(ns) > 0.99*float64(least) && float64(ns) < 1.01*float64(most) }
			if cell.Running != cell.Enabled || !within(cell.Value) || !within(cell.Enabled) {
				t.Errorf("event %d on CPU %d: %+v, want %v to %v of each", cell.Event, cell.CPU, cell.Reading, least, most)
			}
		}
	}
}
