package program

import (
	"testing"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/test/require"
)

// TestCalibrate has a program that does nothing count next to nothing, and a loop what it takes.
func TestCalibrate(t *testing.T) {
	require.ExactPMU(t)
	require.OneCPU(t)
	const times, near = 100, 20
	for _, rounds := range []int32{0, 1000} {
		prog, target := loadLoop(t, rounds)
		c := openFor(t, count.Options{Calibrate: true}, "instructions,cycles,page-faults", target)
		check(t, c.Enable())
		run(t, prog, times)
		check(t, c.Disable())
		r := read(t, c, 0)
		least, want := r.events[0].Runs.Min, uint64(rounds*loopInstructions)
		t.Logf("%d rounds: at least %d instructions in a run, %d taken off", rounds, least, c.Overhead()[0])
		if r.runs != times || least < want || least > want+near || c.Overhead()[0] == 0 || c.Overhead()[2] != 0 {
			t.Errorf("%d rounds: %d runs, at least %d instructions in one, want %d; taken off %v", rounds, r.runs, least, want, c.Overhead())
		}
		if median, _ := r.events[0].Runs.Quantile(0.5); median > float64(want+near)*1.125 {
			t.Errorf("%d rounds: the median is %v", rounds, median)
		}
	}
}

// TestProbes has what the probes count in a run told where it is not taken off.
func TestProbes(t *testing.T) {
	require.ExactPMU(t)
	require.OneCPU(t)
	const near = 20
	prog, target := loadLoop(t, 1000)
	c := openFor(t, count.Options{Probes: true}, "instructions,page-faults", target)
	check(t, c.Enable())
	run(t, prog, 100)
	check(t, c.Disable())
	r := read(t, c, 0)
	probes, known := r.events[0].Runs.ProbesPerRun()
	faults, faultsKnown := r.events[1].Runs.ProbesPerRun()
	if !known || !faultsKnown || c.Overhead() != nil {
		t.Fatalf("%+v, taken off %v", r.events[0].Runs.Probes, c.Overhead())
	}
	least := r.events[0].Runs.Min
	t.Logf("at least %d instructions in a run, %d of them the probes'", least, probes)
	if want := uint64(1000 * loopInstructions); least-probes < want || least-probes > want+near || faults != 0 {
		t.Errorf("at least %d instructions in a run, want %d; and %d page faults", least-probes, want, faults)
	}
}

// TestCalibrateWithoutTracing opens where nothing can be traced, too.
func TestCalibrateWithoutTracing(t *testing.T) {
	prog, target := loadLoop(t, 1)
	target.Function = ""
	c := openFor(t, count.Options{Probes: true, Calibrate: true}, "cpu-clock", target)
	check(t, c.Enable())
	run(t, prog, 3)
	if r := read(t, c, 0); r.runs != 3 {
		t.Errorf("%d runs, want 3", r.runs)
	}
}
