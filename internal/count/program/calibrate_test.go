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
		c := openWith(t, count.Options{Calibrate: true}, "instructions,cycles,page-faults", target)
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

// TestCalibrateWithoutTracing opens where nothing can be traced, too.
func TestCalibrateWithoutTracing(t *testing.T) {
	prog, target := loadLoop(t, 1)
	target.Function = ""
	c := openWith(t, count.Options{Calibrate: true}, "cpu-clock", target)
	check(t, c.Enable())
	run(t, prog, 3)
	if r := read(t, c, 0); r.runs != 3 {
		t.Errorf("%d runs, want 3", r.runs)
	}
}
