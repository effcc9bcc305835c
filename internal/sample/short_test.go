package sample

import (
	"testing"
	"time"

	"github.com/bperf/bperf/test/program"
	"github.com/bperf/bperf/test/require"
)

// TestShortProcesses has processes that end within a period. There are as many samples as their CPU time makes, give or take the chance. Where events are
// those of threads, bperf estimates how many samples are missing.
func TestShortProcesses(t *testing.T) {
	const hertz = 49
	tasks := uint16(1000)
	if require.IsGuest() { // where one takes ten times as long
		tasks = 250
	}
	short := program.Program{Body: program.Spin, Times: 2_000_000, Tasks: tasks}.Write(t)
	for events, ofThreads := range map[string]bool{"cpu-clock": false, "cpu-clock,alignment-faults": true} {
		t.Run(events, func(t *testing.T) {
			cfg := config(t, events, short)
			cfg.Record.Period, cfg.Record.Frequency = 0, hertz
			r := take(t, cfg)
			got := r.Totals.Samples
			if ofThreads {
				got += r.Profile.Losses.MissedEstimate
			}
			if want := uint64((r.Command.User + r.Command.System) * hertz / time.Second); got < want/2 {
				t.Errorf("%d, and the CPU time makes %d: %+v", got, want, r.Totals)
			}
		})
	}
}
