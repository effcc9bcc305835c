package sample

import (
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/test/require"
)

// TestNothingLost samples thousands of different stacks on all CPUs at once, more than the maps hold between two reads.
func TestNothingLost(t *testing.T) {
	for _, tt := range []struct {
		name, events      string
		period, frequency uint64
		least             int // different stacks
	}{
		{"each fault", "page-faults:u", 1, 0, ways},
		{"clock", "cpu-clock", 0, rate(), 100},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := config(t, tt.events, load(t, "stacks", 0)...)
			cfg.Keep |= profile.Address
			cfg.Record.Target.System = true
			cfg.Record.Period, cfg.Record.Frequency = tt.period, tt.frequency
			r := take(t, cfg)
			// Beside others, a busy machine reads too seldom for maps of the default size.
			for cfg.Entries = 64 << 10; r.Totals.NoRoom != 0 && cfg.Entries < 1<<20; cfg.Entries *= 2 {
				r = take(t, cfg)
			}
			if r.Totals.NoRoom != 0 || r.Totals.NoStack != 0 || r.Totals.Collisions != 0 {
				t.Errorf("lost: %+v", r.Totals)
			}
			period := tt.period
			if tt.frequency > 0 {
				period = r.Totals.Value / r.Totals.Samples
			}
			own, told := r.Totals.Counted/period, r.Totals.Samples+r.Totals.Missed
			// One period per CPU may be incomplete. Totals.Missed does not count as many samples.
			if cpus := uint64(runtime.NumCPU()); told > own || told+2*cpus < own || tt.frequency == 0 && r.Totals.Missed == 0 && told != own {
				t.Errorf("the event has counted %d samples: %+v", own, r.Totals)
			}
			if code := r.Command.ExitCode(); code != 0 {
				t.Errorf("the load ended with %d", code)
			}
			if tt.frequency == 0 && r.Totals.Counted < walkers*ways*walks {
				t.Errorf("the event has counted %d faults of %d and more", r.Totals.Counted, walkers*ways*walks)
			}
			different, value := make(map[profile.StackID]bool), uint64(0)
			for _, s := range r.Profile.Samples() {
				different[s.Stack] = true
				value += s.Value
			}
			if value != r.Totals.Value {
				t.Errorf("the profile has a value of %d, not that of all samples: %+v", value, r.Totals)
			}
			if len(different) < tt.least {
				t.Errorf("%d different stacks, want %d and more", len(different), tt.least)
			}
		})
	}
}

// TestThrottled asks for more samples than kernel.perf_event_max_sample_rate allows. The kernel stops the event until the next tick, and writes a record.
func TestThrottled(t *testing.T) {
	require.Guest(t) // the limit is the machine's
	set := func(sysctl, value string) {
		t.Helper()
		file := "/proc/sys/kernel/" + sysctl
		before, err := os.ReadFile(file)
		check(t, err)
		check(t, os.WriteFile(file, []byte(value), 0))
		t.Cleanup(func() { check(t, os.WriteFile(file, before, 0)) })
	}
	set("perf_cpu_time_max_percent", "25") // at 0, as in guests, the rate cannot be set
	set("perf_event_max_sample_rate", "1000")
	cfg := config(t, "cpu-clock", load(t, "go", time.Second/5)...)
	cfg.Record.Period = 200_000 // 5,000 a second
	start := time.Now()
	r := take(t, cfg)
	wall := time.Since(start) * time.Duration(runtime.NumCPU())
	if n := r.Totals; n.Throttled == 0 || n.Stopped <= 0 || n.Stopped > wall || n.Samples == 0 {
		t.Errorf("in %v: %+v", wall, n)
	}
}
