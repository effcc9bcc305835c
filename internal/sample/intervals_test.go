package sample

import (
	"errors"
	"testing"
	"time"

	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/test/program"
	"github.com/bperf/bperf/test/require"
)

// TestIntervalLosses takes page faults with maps that are too small, in intervals. Together the intervals have the losses of the session.
// A task touches more addresses between two readings of the maps than they have room for, even on a machine that is a hundred times slower.
func TestIntervalLosses(t *testing.T) {
	require.AnyArch(t)
	cfg := config(t, "page-faults:u", program.Program{Body: program.Touch, Times: program.MaxPages, Tasks: 100}.Write(t))
	cfg.Entries, cfg.Every = 16, 100*time.Millisecond
	cfg.By = Keys{PID: true, TID: true, Addr: true}
	intervals := 0
	var all profile.Losses
	cfg.Each = func(p *profile.Profile) error {
		intervals++
		all.Add(&p.Losses)
		return nil
	}
	r, err := Run(cfg)
	check(t, err)
	t.Logf("%d intervals lost %+v; %s", intervals, all, r.Totals)
	if r.Totals.NoRoom == 0 {
		t.Fatal("the maps had room for everything: nothing was tested")
	}
	if all.Samples != r.Totals.NoRoom || all.Truncated != r.Totals.Truncated {
		t.Errorf("the intervals lost %+v, all together %+v", all, r.Totals)
	}
}

// TestEachFails ends a session whose interval cannot be handed over.
func TestEachFails(t *testing.T) {
	require.AnyArch(t)
	full := errors.New("the disk is full")
	cfg := config(t, "cpu-clock")
	cfg.Record.Target.System = true
	cfg.Record.Period, cfg.Record.Frequency = 0, 99
	cfg.Every, cfg.Each = 100*time.Millisecond, func(*profile.Profile) error { return full }
	if _, err := Run(cfg); !errors.Is(err, full) {
		t.Errorf("the session ended with: %v", err)
	}
}

// TestDone ends a session from within, and another one before it has begun.
func TestDone(t *testing.T) {
	require.AnyArch(t)
	done := make(chan struct{})
	cfg := config(t, "cpu-clock")
	cfg.Record.Target.System, cfg.Record.Done = true, done
	cfg.Record.Period, cfg.Record.Frequency = 0, 99
	cfg.Every = 100 * time.Millisecond
	n := 0
	cfg.Each = func(*profile.Profile) error {
		if n++; n == 2 {
			close(done)
		}
		return nil
	}
	r, err := Run(cfg)
	check(t, err)
	if n < 2 || r.Signal != nil || r.Totals.Samples == 0 {
		t.Errorf("after %d intervals: %+v", n, r)
	}
	_, err = Run(cfg)
	check(t, err)
}
