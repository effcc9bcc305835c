package program

import (
	"math"
	"strings"
	"testing"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/test/require"
)

// TestCalibrate counts almost nothing in a program that does nothing, and the instructions of its loop in another.
func TestCalibrate(t *testing.T) {
	require.ExactPMU(t)
	require.OneCPU(t)
	const times, near = 100, 20
	for _, rounds := range []int32{0, 1000} {
		prog, target := loadLoop(t, rounds)
		c := openFor(t, Options{Calibrate: true}, "instructions,cycles,page-faults", target)
		check(t, c.Enable())
		run(t, prog, times)
		check(t, c.Disable())
		r := read(t, c, 0)
		least, want := r.events[0].Runs.Min, uint64(rounds*loopInstructions)
		taken, known := r.events[0].Runs.ProbesPerRun()
		faults, faultsKnown := r.events[2].Runs.ProbesPerRun()
		t.Logf("%d rounds: at least %d instructions in a run, %d taken off", rounds, least, taken)
		if r.runs != times || least < want || least > want+near || taken == 0 || !known || faults != 0 || !faultsKnown {
			t.Errorf("%d rounds: %d runs, at least %d instructions in one, want %d; taken off %d and %d", rounds, r.runs, least, want, taken, faults)
		}
		if median, _ := r.events[0].Runs.Quantile(0.5); median > float64(want+near)*1.125 {
			t.Errorf("%d rounds: the median is %v", rounds, median)
		}
	}
}

// TestProbes reports the overhead of the probes in a run without subtracting it.
func TestProbes(t *testing.T) {
	require.ExactPMU(t)
	require.OneCPU(t)
	const near = 20
	prog, target := loadLoop(t, 1000)
	c := openFor(t, Options{Probes: true}, "instructions,page-faults", target)
	check(t, c.Enable())
	run(t, prog, 100)
	check(t, c.Disable())
	r := read(t, c, 0)
	probes, known := r.events[0].Runs.ProbesPerRun()
	faults, faultsKnown := r.events[1].Runs.ProbesPerRun()
	if !known || !faultsKnown || r.events[0].Runs.Calibrated {
		t.Fatalf("%+v", r.events[0].Runs)
	}
	least := r.events[0].Runs.Min
	t.Logf("at least %d instructions in a run, %d of them the probes'", least, probes)
	if want := uint64(1000 * loopInstructions); least-probes < want || least-probes > want+near || faults != 0 {
		t.Errorf("at least %d instructions in a run, want %d; and %d page faults", least-probes, want, faults)
	}
}

// TestProbesMultiplexed counts more events than the CPU has counters. The overhead of each is known, whether it is subtracted or not, and no
// minimum is from a run without a counter.
func TestProbesMultiplexed(t *testing.T) {
	require.ExactPMU(t)
	require.OneCPU(t)
	const rounds, times, near = 1000, 20_000, 30
	const want = rounds * loopInstructions
	for _, o := range []Options{{Calibrate: true}, {Probes: true}} {
		prog, target := loadLoop(t, rounds)
		c := openFor(t, o, strings.Repeat("instructions,", 14)+"instructions", target)
		check(t, c.Enable())
		run(t, prog, times)
		check(t, c.Disable())
		for i, e := range read(t, c, 0).events {
			total := count.Sum([]perfevent.Reading{e.Reading}, false)
			mean, least := total.Value/float64(e.Runs.Counted), e.Runs.Min
			probes, known := e.Runs.ProbesPerRun()
			t.Logf("event %d: %.0f in a run, %d at least, the probes' %d; it ran %d of %d ns", i, mean, least, probes, e.Running, e.Enabled)
			atMost := uint64(want + near)
			if !o.Calibrate {
				mean -= float64(probes)
				atMost += probes
			}
			if !total.Scaled() || !known || math.Abs(mean/want-1) > 0.03 || !e.Runs.Ranged || least < want || least > atMost {
				t.Errorf("event %d: without the probes %.0f in a run, want %d, and %d at least, want %d to %d; known: %v", i, mean, want, least, want, atMost, known)
			}
		}
		check(t, c.Close())
	}
}

// TestProbesUnmeasured lets other events keep all counters: then the overhead is unknown, and nothing is subtracted.
func TestProbesUnmeasured(t *testing.T) {
	require.ExactPMU(t)
	require.OneCPU(t)
	const times = 20_000
	prog, target := loadLoop(t, 1)
	giveBack := keepCounters(t)
	c := openFor(t, Options{Calibrate: true}, "instructions,page-faults", target)
	check(t, c.Enable())
	giveBack()
	run(t, prog, times)
	check(t, c.Disable())
	r := read(t, c, 0)
	_, known := r.events[0].Runs.ProbesPerRun()
	faults, faultsKnown := r.events[1].Runs.ProbesPerRun()
	if known || r.events[0].Runs.Unmeasured != times || r.events[0].Runs.Max < 300 {
		t.Errorf("at most %d instructions in a run with what the probes count, which is not known of %d", r.events[0].Runs.Max, r.events[0].Runs.Unmeasured)
	}
	if !faultsKnown || faults != 0 {
		t.Errorf("the probes count %d page faults, known: %v", faults, faultsKnown)
	}
}

// TestCalibrateWithoutTracing opens a counter even if nothing can be traced.
func TestCalibrateWithoutTracing(t *testing.T) {
	prog, target := loadLoop(t, 1)
	target.Function = ""
	c := openFor(t, Options{Probes: true, Calibrate: true}, "cpu-clock", target)
	check(t, c.Enable())
	run(t, prog, 3)
	if r := read(t, c, 0); r.runs != 3 {
		t.Errorf("%d runs, want 3", r.runs)
	}
}
