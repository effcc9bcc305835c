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
// the time for which it ran: that tells whether the kernel's times are right, however long anything takes.
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
	for range 2 { // the second begins with what the first left behind
		c, err := Open(events, root, count.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.Enable(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
		if err := c.Disable(); err != nil {
			t.Fatal(err)
		}
		cells, err := c.Read(nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, cell := range cells {
			const slack = uint64(10 * time.Millisecond)
			if cell.Running != cell.Enabled || cell.Value > cell.Enabled+slack || cell.Enabled > cell.Value+slack {
				t.Errorf("event %d on CPU %d: %+v, which should be three times the same", cell.Event, cell.CPU, cell.Reading)
			}
		}
	}
}
