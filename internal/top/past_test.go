package top

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/internal/bpfprog"
)

func TestPast(t *testing.T) {
	p := &Programs{}
	interval := func(id uint32, runs uint64, all uint64) {
		p.past = remember(p.past, &bpfprog.Observation{Window: 2 * time.Second, Programs: []bpfprog.Observed{{
			Program: &bpfprog.Program{ID: id, Stats: bpfprog.Stats{Runs: all, RunTime: time.Duration(all)}},
			Use:     bpfprog.Use{Stats: bpfprog.Stats{Runs: runs}, CPUs: float64(runs) / 1000},
		}}})
	}
	if got := p.Past(7); got != nil {
		t.Errorf("before the first interval: %q", got)
	}
	for i, runs := range []uint64{0, 10, 80, 40} {
		interval(7, runs, uint64(1000+i))
	}
	want := []string{
		"runs/s  ▂█▅  at most 40.0",
		"cpu %   ▂█▅  at most 8.000",
		"These are the last 8s. Since it was loaded, 1003 runs in 1.003µs were counted.",
	}
	if diff := cmp.Diff(want, p.Past(7)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for range 10 * pastLength {
		interval(7, 6, 5)
	}
	want = []string{
		"runs/s " + strings.Repeat("█", graphLength) + "  at most 3.0",
		"cpu %  " + strings.Repeat("█", graphLength) + "  at most 0.600",
		"These are the last 10m0s. Since it was loaded, 5 runs in 5ns were counted.",
	}
	if diff := cmp.Diff(want, p.Past(7)); diff != "" {
		t.Errorf("after many intervals, -want +got:\n%s", diff)
	}
	if kept := p.past[7]; len(kept.runs) != pastLength || len(kept.cpus) != pastLength || len(kept.windows) != pastLength {
		t.Errorf("%d intervals are kept", len(kept.runs))
	}
	if interval(8, 1, 1); p.Past(7) != nil || p.Past(8) == nil {
		t.Error("a program that is not loaded any more has a past")
	}
}

func TestMerged(t *testing.T) {
	for _, tt := range []struct {
		values []float64
		n      int
		want   []float64
	}{
		{nil, 2, nil},
		{[]float64{1}, 2, []float64{1}},
		{[]float64{1, 2}, 2, []float64{1, 2}},
		{[]float64{1, 2, 4}, 2, []float64{1, 3}},
		{[]float64{1, 2, 3, 4}, 2, []float64{1.5, 3.5}},
		{[]float64{9, 1, 2, 3, 4, 5, 6}, 2, []float64{4, 4.5}},
	} {
		if diff := cmp.Diff(tt.want, merged(tt.values, tt.n)); diff != "" {
			t.Errorf("%v in %d: -want +got:\n%s", tt.values, tt.n, diff)
		}
	}
}
