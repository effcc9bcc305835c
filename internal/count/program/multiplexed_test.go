package program

import (
	"math"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/require"
)

// takeCounters opens more events than the CPU has counters, so that they multiplex with the events of a session.
func takeCounters(t *testing.T) (giveBack func()) {
	return openOnCPU0(t, perfdata.Attr{Config: unix.PERF_COUNT_HW_INSTRUCTIONS})
}

// keepCounters opens pinned events that leave no counter to the events of a session.
func keepCounters(t *testing.T) (giveBack func()) {
	return openOnCPU0(t, perfdata.Attr{Config: unix.PERF_COUNT_HW_INSTRUCTIONS, Flags: perfdata.AttrPinned})
}

func openOnCPU0(t *testing.T, a perfdata.Attr) (giveBack func()) {
	t.Helper()
	var all []*perfevent.Event
	for range 10 {
		e, err := perfevent.Open(&a, perfevent.Where{Thread: perfevent.AnyThread, CPU: 0})
		check(t, err)
		all = append(all, e)
	}
	return func() {
		for _, e := range all {
			check(t, e.Close())
		}
	}
}

// TestMultiplexed lets other events take counters in the middle of a session, or before it begins. The session's counts are then
// estimates, which are near the truth and are marked as estimates. No count combines a reading with times and one without.
func TestMultiplexed(t *testing.T) {
	require.ExactPMU(t)
	require.OneCPU(t)
	const rounds, times = 10_000, 2000
	for name, phases := range map[string][]bool{"in the middle": {false, true, false}, "from the beginning": {true, false}, "never": {false}} {
		t.Run(name, func(t *testing.T) {
			prog, target := loadLoop(t, rounds)
			c := tracing(t, "instructions,instructions:k", target)
			giveBack := func() {}
			scaled := false
			for i, taken := range phases {
				if taken {
					giveBack = takeCounters(t)
					scaled = true
				}
				if i == 0 {
					check(t, c.Enable())
				}
				run(t, prog, times)
				if taken {
					giveBack()
				}
			}
			check(t, c.Disable())
			r := read(t, c, 0)
			lost, err := c.Losses()
			check(t, err)
			for i, e := range r.events {
				total := count.Sum([]perfevent.Reading{e.Reading}, false)
				// An instruction takes a nanosecond, and there are some between the readings of the clock and of the event.
				want := float64(r.time) + float64(e.Runs.Counted)*600
				t.Logf("event %d: %.0f, want %.0f (%+.2f %%), in %d runs from %d to %d; enabled %d, running %d; dropped: %v", i, total.Value, want,
					100*(total.Value/want-1), e.Runs.Counted, e.Runs.Min, e.Runs.Max, e.Enabled, e.Running, &lost[0].Dropped)
				if math.Abs(total.Value/want-1) > 0.03 {
					t.Errorf("event %d: %.0f, want %.0f", i, total.Value, want)
				}
				if total.Scaled() != scaled {
					t.Errorf("event %d: is an estimate: %v, want %v", i, total.Scaled(), scaled)
				}
				if e.Runs.Min < rounds*loopInstructions || e.Runs.Max > 2*rounds*loopInstructions {
					t.Errorf("event %d: runs have from %d to %d", i, e.Runs.Min, e.Runs.Max)
				}
			}
			if r.runs != uint64(len(phases))*times {
				t.Errorf("%d runs", r.runs)
			}
		})
	}
}
