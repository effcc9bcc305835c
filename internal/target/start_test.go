package target_test

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/require"
)

// TestChildStartsNothing counts the threads and processes that the first thread of a child starts between the moment when events can be
// opened for it and the end of the command. There are none.
func TestChildStartsNothing(t *testing.T) {
	require.Root(t)
	c, err := target.StartCommand([]string{"true"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Kill()
	attr := perfdata.Attr{Type: perfdata.TypeSoftware, Config: perfdata.SoftwareDummy, SampleType: perfevent.TrailerFormat,
		Flags: perfdata.AttrTask | perfdata.AttrComm | perfdata.AttrSampleIDAll}
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

// TestEnabledByTheCommand opens events that are enabled on exec as soon as it can. The child's own exec, of this program, must be over by
// then.
func TestEnabledByTheCommand(t *testing.T) {
	require.Root(t)
	for range 30 {
		c, err := target.StartCommand([]string{"true"})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Kill()
		attr := perfdata.Attr{Type: perfdata.TypeSoftware, Config: perfdata.SoftwarePageFaults, ReadFormat: perfevent.ReadFormatTimes,
			Flags: perfdata.AttrDisabled | perfdata.AttrEnableOnExec}
		e, err := perfevent.Open(&attr, perfevent.Where{Thread: c.PID(), CPU: perfevent.AnyCPU})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		time.Sleep(time.Millisecond) // enough for a child that does not wait to go on
		reading, err := e.Read()
		if err != nil {
			t.Fatal(err)
		}
		if reading.Enabled != 0 {
			t.Fatalf("the event was enabled before the command: %+v", reading)
		}
	}
}
