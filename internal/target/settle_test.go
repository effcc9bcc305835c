package target_test

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/test/require"
)

// TestSettle counts the threads and processes that the first thread of a child starts, from Settle on to the end of the command: none.
func TestSettle(t *testing.T) {
	require.Root(t)
	c, err := target.StartCommand([]string{"true"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Kill()
	if err := c.Settle(); err != nil {
		t.Fatal(err)
	}
	attr := perfevent.Attr{Type: perfevent.TypeSoftware, Config: perfevent.SoftwareDummy, SampleType: perfevent.TrailerFormat,
		Flags: perfevent.Task | perfevent.Comm | perfevent.SampleIDAll}
	e, err := perfevent.Open(&attr, perfevent.Where{Thread: c.PID(), CPU: perfevent.AnyCPU})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	ring, err := e.Map(0)
	if err != nil {
		t.Fatal(err)
	}
	defer ring.Close()
	if err := c.Exec(); err != nil {
		t.Fatal(err)
	}
	c.Wait()
	kinds := make(map[uint32]int)
	for {
		rec, ok, err := ring.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		kinds[rec.Type]++
	}
	if kinds[unix.PERF_RECORD_FORK] != 0 || kinds[unix.PERF_RECORD_COMM] == 0 {
		t.Errorf("records by type: %v, want some of names and none of forks", kinds)
	}
}
