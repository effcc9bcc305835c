package bpfprog

import (
	"slices"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/bperf/bperf/test/require"
)

func runs(t *testing.T, p *ebpf.Program, n int) {
	t.Helper()
	for range n {
		if _, err := p.Run(&ebpf.RunOptions{Context: [8]byte{}}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestObserver observes programs that are loaded from the beginning, and programs that come and go.
func TestObserver(t *testing.T) {
	require.Root(t)
	first, firstID := load(t, &ebpf.ProgramSpec{Name: "observe_first", Type: ebpf.RawTracepoint})
	load(t, &ebpf.ProgramSpec{Name: "unobserved", Type: ebpf.RawTracepoint})
	s, err := Parse("name:observe_*,name:observe_second")
	if err != nil {
		t.Fatal(err)
	}
	o, missing, err := Observe(s)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	}()
	if len(missing) != 1 || missing[0].Item != "name:observe_second" {
		t.Errorf("missing: %v", missing)
	}
	// next compares the runs by ID, and returns the observation.
	next := func(want map[uint32]uint64) *Observation {
		t.Helper()
		observed, err := o.Next()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range observed.Programs {
			if n, there := want[p.ID]; !there || p.Use.Runs != n || (p.Use.RunTime > 0) != (n > 0) {
				t.Errorf("program %d: %+v, want %d runs (%v)", p.ID, p.Use, n, there)
			}
			if p.Use.CPUs != float64(p.Use.RunTime)/float64(observed.Window) {
				t.Errorf("program %d: %v CPUs of %v", p.ID, p.Use.CPUs, observed.Window)
			}
		}
		if len(observed.Programs) != len(want) {
			t.Errorf("%d programs, want %d", len(observed.Programs), len(want))
		}
		return observed
	}
	runs(t, first, 7)
	before := next(map[uint32]uint64{firstID: 7})
	second, secondID := load(t, &ebpf.ProgramSpec{Name: "observe_second", Type: ebpf.RawTracepoint})
	runs(t, first, 2)
	runs(t, second, 3)
	after := next(map[uint32]uint64{firstID: 2, secondID: 3})
	if got := after.Time.Sub(before.Time); got != after.Window {
		t.Errorf("an interval of %v from %v to %v", after.Window, before.Time, after.Time)
	}
	i := slices.IndexFunc(after.Programs, func(p Observed) bool { return p.ID == firstID })
	if i >= 0 && after.Programs[i].Program.Stats.Runs < 9 {
		t.Errorf("%+v since it was loaded, want 9 runs", after.Programs[i].Program.Stats)
	}
	first.Close()
	waitGone(t, firstID)
	next(map[uint32]uint64{secondID: 0})
}
