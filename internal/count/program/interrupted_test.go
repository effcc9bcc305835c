package program

import (
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/kernel"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/require"
)

// interrupt makes timers interrupt the first CPU as often as the kernel allows, until the test ends.
func interrupt(t *testing.T) {
	t.Helper()
	for _, period := range []uint64{10_000, 11_003, 13_007} { // in ns; 10,000 is the least
		e, err := perfevent.Open(&perfdata.Attr{Type: perfdata.TypeSoftware, Config: perfdata.SoftwareCPUClock, SamplePeriod: period},
			perfevent.Where{Thread: perfevent.AnyThread, CPU: 0})
		check(t, err)
		t.Cleanup(func() { e.Close() })
	}
}

// interrupted runs a program that does nothing, so that its probes are most of a run. Each timer interrupt runs it, too. interrupted returns after an
// interrupt during a probe. Each run is either counted or dropped.
func interrupted(t *testing.T, events string, repeat int) (r result, lost Losses) {
	t.Helper()
	prog, target := load(t, &ebpf.ProgramSpec{Type: ebpf.RawTracepoint, Instructions: loop(0)})
	c := tracing(t, events, target)
	runs := kernelRuns(t, prog)
	check(t, c.Enable())
	interrupt(t)
	l, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: "hrtimer_expire_entry", Program: prog})
	check(t, err)
	within := func() bool {
		misses, err := c.programs[0].session.countMisses()
		check(t, err)
		own, err := prog.Stats()
		check(t, err)
		return misses.Entry+misses.Exit+own.RecursionMisses > 0 // Linux 7.2 does not run the program inside a run of the test
	}
	called := uint64(0)
	check(t, perfevent.OnCPU(0, func() error {
		for called == 0 || !within() {
			for range repeat {
				if _, err := prog.Run(&ebpf.RunOptions{}); err != nil {
					return err
				}
			}
			called += uint64(repeat)
		}
		return nil
	}))
	check(t, l.Close())
	check(t, kernel.WaitForBPF()) // after a grace period the tracepoint does not run it
	check(t, c.Disable())
	r = read(t, c, 0)
	all, err := c.Losses()
	check(t, err)
	lost = all[0]
	misses := c.programs[0].session.missed
	t.Logf("%d runs, %d of them nested; probes left out: %+v; counts of a run from %d to %d; dropped: %v",
		r.runs, r.runs-called, misses, r.events[0].Runs.Min, r.events[0].Runs.Max, &lost.Dropped)
	if got := runs(); r.runs != got || r.events[0].Runs.Counted+r.dropped != r.runs || lost.Dropped.Total() != r.dropped {
		t.Errorf("%d runs of %d, %d counted, %d dropped: %v", r.runs, got, r.events[0].Runs.Counted, r.dropped, &lost.Dropped)
	}
	// A run without its exit probe leaves its beginning in the slot. The exit probe of a later run at the same place, whose entry probe was
	// skipped, treats that beginning as its own. If the task was switched away from in between, the later run looks as if it had been
	// switched away from.
	if lost.Dropped[count.DroppedInterrupted]+lost.Dropped[count.DroppedSwitched] < misses.Entry+misses.Exit || lost.Dropped[count.DroppedUnderWay] != 0 || lost.Dropped[count.DroppedNested] != 0 {
		t.Errorf("%+v probes were left out: %v", misses, &lost.Dropped)
	}
	return r, lost
}

// TestProbesInterrupted tests runs that begin while a probe of another run is running.
func TestProbesInterrupted(t *testing.T) {
	require.Guest(t)
	r, _ := interrupted(t, "cpu-clock,page-faults,dummy,context-switches", 2000)
	for i, e := range r.events[1:] {
		if e.Value > 100 {
			t.Errorf("event %d counted %d", i+1, e.Value)
		}
	}
}

// TestProbesInterruptedCounts checks that no such run counts more than it and its interrupts can execute.
func TestProbesInterruptedCounts(t *testing.T) {
	require.ExactPMU(t)
	require.OneCPU(t)
	r, _ := interrupted(t, "instructions,cycles,instructions:k,cycles:k", 4000)
	for i, e := range r.events {
		if e.Runs.Min < 200 || e.Runs.Max > 300_000 || e.Value > e.Runs.Counted*e.Runs.Max {
			t.Errorf("event %d counted %d, in a run from %d to %d", i, e.Value, e.Runs.Min, e.Runs.Max)
		}
	}
}
