package sample

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/test/program"
	"github.com/bperf/bperf/test/require"
)

// together takes several profiles of one process at the same time.
func together(t *testing.T, p program.Program, all ...Config) []Result {
	t.Helper()
	var cmd *exec.Cmd
	var in io.WriteCloser
	check(t, perfevent.OnCPU(0, func() error { // on another CPU it would start a new period
		cmd, in = started(t, p.Write(t))
		return nil
	}))
	until(t, func() bool { return inCall(cmd.Process.Pid, "program", syscall.SYS_READ) }) // do not sample the start of the program
	results, errs := make([]Result, len(all)), make([]error, len(all))
	enabled, ended := make(chan int), make(chan int)
	var signals []chan os.Signal
	for i, cfg := range all {
		signal := make(chan os.Signal, 1)
		signals = append(signals, signal)
		cfg.Record.Target, cfg.Record.Signals, cfg.Record.Delay = target.Spec{PIDs: []int{cmd.Process.Pid}}, signal, time.Millisecond
		cfg.Record.Notify = func(s string) {
			if s == "Events enabled" {
				enabled <- i
			}
		}
		go func() {
			results[i], errs[i] = Run(cfg)
			ended <- i
		}()
	}
	for range all {
		select {
		case <-enabled:
		case i := <-ended:
			t.Fatal(errs[i])
		}
	}
	check(t, errors.Join(in.Close(), cmd.Wait()))
	for _, signal := range signals {
		signal <- syscall.SIGINT
	}
	for range all {
		<-ended
	}
	check(t, errors.Join(errs...))
	return results
}

// wanted returns the number of samples in the profile.
func wanted(r *Result) uint64 { return r.Totals.Samples - r.Totals.Filtered - r.Totals.NoRoom }

// missedOnOneCPU returns the number of missing samples of an event that counted on one CPU only. Totals.Missed can be less, because it allows for an
// incomplete period on each CPU.
func missedOnOneCPU(r *Result, cfg Config) uint64 {
	return (r.Totals.Counted - r.Totals.Value) / cfg.Record.Period
}

// TestFiltersTogether takes profiles with different periods, filters and modes, first each alone and then all together. The samples are the same.
func TestFiltersTogether(t *testing.T) {
	const pages = 200
	touch := program.Program{Body: program.Touch, Times: pages, Wait: true}
	first := config(t, "page-faults")
	first.By, first.Keep = Keys{IP: true}, profile.Address
	addresses := make(map[uint64]uint64)
	firstRun := together(t, touch, first)[0]
	found := firstRun.Profile
	for _, s := range found.Samples() {
		addresses[found.Frames()[s.Leaf].IP] += s.Count
	}
	at := most(addresses).Start
	if n := addresses[at]; n > pages || n+firstRun.Totals.NotRun < pages {
		t.Fatalf("faults by address: %v, %+v", addresses, firstRun.Totals)
	}
	var all []Config
	for _, of := range []struct {
		period       uint64
		filter       string
		user, kernel bool
	}{
		{1, "", false, false}, {7, "", false, false}, {1, fmt.Sprint("ip == ", at), false, false}, {1, fmt.Sprint("ip != ", at), false, false},
		{3, "", true, false}, {1, "", false, true},
	} {
		cfg := config(t, "page-faults")
		cfg.Record.Period, cfg.Record.AllUser, cfg.Record.AllKernel = of.period, of.user, of.kernel
		cfg.Record.Events.Events()[0].Filter = of.filter
		all = append(all, cfg)
	}
	beside := together(t, touch, all...)
	for i, cfg := range all {
		alone := together(t, touch, cfg)[0]
		got, want := wanted(&beside[i]), wanted(&alone)
		// A fault is missed if it interrupts a map operation of another program on that CPU.
		if missed := missedOnOneCPU(&alone, cfg) + missedOnOneCPU(&beside[i], cfg); got > want+missed || want > got+missed {
			t.Errorf("%d: %d samples, alone %d: %+v, alone %+v", i, got, want, beside[i].Totals, alone.Totals)
		}
		if missed := beside[i].Totals.Missed; i == 2 && (got > pages || got+missed < pages) {
			t.Errorf("%d samples at the address of %d faults: %+v", got, pages, beside[i].Totals)
		}
	}
}

// TestPeriodsTogether takes profiles with different periods of the PMU at the same time. Each has one sample per period of cycles. The emulated PMU notices
// overflows late and can merge several; these are reported as missed.
func TestPeriodsTogether(t *testing.T) {
	require.ExactPMU(t)
	require.OneCPU(t)
	spin := program.Program{Body: program.Spin, Times: 10_000_000, Wait: true}
	periods := []uint64{100_003, 70_001, 250_007}
	var all []Config
	for _, period := range periods {
		cfg := config(t, "cycles:u")
		cfg.Record.Period = period
		all = append(all, cfg)
	}
	for i, r := range together(t, spin, all...) {
		want := spin.InstructionsAfterWait() / periods[i]
		if got := r.Totals.Samples; got+r.Totals.Missed+2 < want || got+r.Totals.Missed > want || 2*got < want || r.Totals.Value != got*periods[i] {
			t.Errorf("%d samples of each %dth cycle, want %d: %+v", got, periods[i], want, r.Totals)
		}
	}
}
