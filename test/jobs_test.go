package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
)

// TestPool runs jobs that wait for each other, so that the test ends only if they run at once. Two of the jobs may not run at once.
func TestPool(t *testing.T) {
	var alone, most atomic.Int32
	meet := make(chan struct{})
	quiet := func(ctx context.Context, r *run) error {
		most.Store(max(most.Load(), alone.Add(1)))
		defer alone.Add(-1)
		fmt.Fprintf(r, "--- PASS: TestAlone (0.00s)\n")
		<-meet
		return nil
	}
	p := pool{at: 2, jobs: []job{
		{name: "a", alone: true, run: quiet},
		{name: "b", alone: true, run: quiet},
		{name: "c", run: func(ctx context.Context, r *run) error {
			meet <- struct{}{} // a is running
			fmt.Fprint(r, "--- PASS: TestC (0.00s)\nok  \tc\t0s\n")
			meet <- struct{}{} // b is running
			return nil
		}},
		{name: "d", run: func(ctx context.Context, r *run) error { return errors.New("cannot") }},
	}}
	var out, summary strings.Builder
	runs := p.runAll(t.Context(), &out)
	if most.Load() != 1 {
		t.Errorf("%d jobs ran at once that should run alone", most.Load())
	}
	want := "--- PASS: TestAlone (0.00s)\n--- PASS: TestAlone (0.00s)\n--- PASS: TestC (0.00s)\nok  \tc\t0s\n d: cannot\n"
	if out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
	if failed := printTallies(&summary, runs); failed != 1 || !strings.Contains(summary.String(), "3 passed, 1 failed") {
		t.Errorf("%d failed:\n%s", failed, summary.String())
	}
}

// TestPoolStopped checks that the pool does not start jobs after the timeout, and that each is a failure.
func TestPoolStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p := pool{at: 1, jobs: []job{
		{name: "a", run: func(context.Context, *run) error { cancel(); return nil }},
		{where: where{kernel: host}, name: "b", run: func(context.Context, *run) error { t.Error("started"); return nil }},
	}}
	var summary strings.Builder
	if failed := printTallies(&summary, p.runAll(ctx, &strings.Builder{})); failed != 1 {
		t.Errorf("%d failed, not 1", failed)
	}
	if want := "\nFailed:\n    host b: the package (not started)\n\n0 passed, 1 failed\n"; summary.String() != want {
		t.Errorf("printed %q, want %q", summary.String(), want)
	}
}
