package sample

import (
	"testing"
	"time"

	"github.com/bperf/bperf/test/program"
	"github.com/bperf/bperf/test/require"
)

// TestShortProcesses samples processes that end within a period. The number of samples matches their CPU time, apart from chance. With events of threads,
// bperf estimates the number of missing samples.
func TestShortProcesses(t *testing.T) {
	require.AnyArch(t)
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
