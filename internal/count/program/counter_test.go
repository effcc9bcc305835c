package program

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/event"
	system "github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/test/require"
)

// TestRunsOfAWindow counts exactly the runs between Enable and Disable.
func TestRunsOfAWindow(t *testing.T) {
	prog, target := loadLoop(t, 100)
	c := tracing(t, "cpu-clock,page-faults,dummy", target)
	run(t, prog, 11)
	check(t, c.Enable())
	run(t, prog, 1000)
	check(t, c.Disable())
	r := read(t, c, 0)
	run(t, prog, 100)
	if after := read(t, c, 0); after.runs != r.runs || after.events[0].Reading != r.events[0].Reading {
		t.Errorf("after the end %d runs and %+v, before %d and %+v", after.runs, after.events[0].Reading, r.runs, r.events[0].Reading)
	}
	check(t, c.Enable())
	run(t, prog, 234)
	check(t, c.Disable())
	total := read(t, c, 0)
	lost, err := c.Losses()
	check(t, err)
	if r.runs != 1000 || total.runs != 1234 || total.dropped != lost[0].Dropped.Total() || total.dropped != lost[0].Dropped[count.DroppedSwitched] {
		t.Errorf("%d runs, then %d, and %d dropped: %v; want 1000, 1234, and none dropped but those switched away from",
			r.runs, total.runs, total.dropped, &lost[0].Dropped)
	}
	for i, e := range total.events {
		if e.Runs.Counted != total.runs-total.dropped || e.Enabled == 0 || e.Running != e.Enabled {
			t.Errorf("event %d: %d runs counted, %+v", i, e.Runs.Counted, e.Reading)
		}
		var inBuckets uint64
		for _, n := range e.Runs.Buckets {
			inBuckets += n
		}
		if inBuckets != e.Runs.Counted || !e.Runs.Ranged || e.Runs.Min > e.Runs.Max || e.Value > e.Runs.Counted*e.Runs.Max {
			t.Errorf("event %d: %d runs in the histogram of %d, from %d to %d, sum %d", i, inBuckets, e.Runs.Counted, e.Runs.Min, e.Runs.Max, e.Value)
		}
	}
	if clock := total.events[0]; clock.Runs.Min == 0 || total.time != clock.Enabled {
		t.Errorf("run time %d ns, enabled for %d ns, at least %d ns of the CPU's clock in a run", total.time, clock.Enabled, clock.Runs.Min)
	}
	if faults := total.events[1]; faults.Value != 0 || faults.Runs.Buckets[0] != faults.Runs.Counted {
		t.Errorf("%d page faults", faults.Value)
	}
}

// TestDetachWhileRunning ends windows, and at last detaches the probes, while the program runs all the time. Runs count up to the
// end of a window and not after it, and their time is not more than the CPU's.
func TestDetachWhileRunning(t *testing.T) {
	prog, target := loadLoop(t, 100)
	c := tracing(t, "cpu-clock", target)
	runs := kernelRuns(t, prog)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		for packet := make([]byte, 64); ctx.Err() == nil; {
			if _, err := prog.Run(&ebpf.RunOptions{Data: packet}); err != nil {
				t.Error(err)
				return
			}
		}
	})
	defer running.Wait()
	defer cancel()
	deadline := time.Now().Add(time.Minute)
	until := func(what string, is func() bool) {
		t.Helper()
		for ; !is(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("after a minute not yet: ", what)
			}
		}
	}
	var window time.Duration
	for i := range uint64(3) {
		began := time.Now()
		check(t, c.Enable())
		until("300 runs in a window", func() bool { return read(t, c, 0).runs >= 300*(i+1) })
		check(t, c.Disable())
		window += time.Since(began)
		r, at := read(t, c, 0), runs()
		if clock := r.events[0].Value; clock == 0 || clock > uint64(window) || r.events[0].Runs.Counted+r.dropped != r.runs {
			t.Errorf("%d ns of the CPU in %v, %d of %d runs counted, %d dropped", clock, window, r.events[0].Runs.Counted, r.runs, r.dropped)
		}
		until("100 runs after it", func() bool { return runs() >= at+100 })
		if after := read(t, c, 0); after.runs != r.runs || after.time != r.time || after.events[0].Reading != r.events[0].Reading {
			t.Errorf("after the end of a window %+v, before %+v", after, r)
		}
	}
	check(t, c.Close())
}

// TestManyEvents counts more events than the kernel would allow if each had its own tracing programs.
func TestManyEvents(t *testing.T) {
	prog, target := loadLoop(t, 1)
	const events = 20
	c := tracing(t, "cpu-clock"+strings.Repeat(",dummy", events-1), target)
	check(t, c.Enable())
	run(t, prog, 20)
	check(t, c.Disable())
	r := read(t, c, 0)
	if r.runs != 20 || len(r.events) != events {
		t.Errorf("%d runs, %d events", r.runs, len(r.events))
	}
	for i, e := range r.events {
		if e.Runs.Counted+r.dropped != r.runs || (e.Value == 0) != (i > 0) {
			t.Errorf("event %d: %d in %d runs of %d", i, e.Value, e.Runs.Counted, r.runs)
		}
	}
	more, err := event.Host().Parse("dummy" + strings.Repeat(",dummy", maxEvents))
	check(t, err)
	if _, err := Open(more, []Target{target}, system.Target{}, Options{}); err == nil || !strings.Contains(err.Error(), "64 are possible") {
		t.Errorf("more than possible: %v", err)
	}
}

// TestSeveralPrograms counts each program separately.
func TestSeveralPrograms(t *testing.T) {
	a, first := loadLoop(t, 1)
	b, second := loadLoop(t, 1)
	c := tracing(t, "cpu-clock", first, second)
	check(t, c.Enable())
	run(t, a, 10)
	run(t, b, 20)
	check(t, c.Disable())
	if one, two := read(t, c, 0).runs, read(t, c, 1).runs; one != 10 || two != 20 {
		t.Errorf("%d and %d runs, want 10 and 20", one, two)
	}
}

// TestSeveralSessions opens sessions that share nothing in one program, up to the kernel's limit. The next one reports that.
func TestSeveralSessions(t *testing.T) {
	prog, target := loadLoop(t, 1)
	tracing(t, "cpu-clock", target)
	alone := func() *Counter { return openFor(t, Options{}, "cpu-clock", target) }
	sessions := []*Counter{alone()}
	for sessions[len(sessions)-1].programs[0].why == nil {
		sessions = append(sessions, alone())
		if len(sessions) > 100 {
			t.Fatal("the kernel allows 100 sessions")
		}
	}
	last := len(sessions) - 1
	why := sessions[last].Err(0)
	if last < 10 || why == nil || !errors.Is(why, syscall.E2BIG) {
		t.Errorf("%d sessions, then: %v", last, why)
	}
	t.Logf("%d sessions, then: %v", last, why)
	for _, s := range sessions {
		check(t, s.Enable())
	}
	run(t, prog, 7)
	for i, s := range sessions {
		if got := read(t, s, 0).runs; got != 7 {
			t.Errorf("session %d counted %d runs, want 7", i, got)
		}
	}
}

// TestWithoutBTF reports the kernel's statistics instead of events.
func TestWithoutBTF(t *testing.T) {
	prog, target := loadLoop(t, 1)
	target.Function = ""
	c := open(t, "cpu-clock", target)
	run(t, prog, 1)
	check(t, c.Enable())
	run(t, prog, 5)
	check(t, c.Disable())
	run(t, prog, 2)
	check(t, c.Enable())
	run(t, prog, 4)
	if r := read(t, c, 0); r.runs != 9 || r.time == 0 || r.dropped != 0 {
		t.Errorf("%+v, want 9 runs", r)
	}
	for _, ev := range []int{0, c.events + ownDropped} {
		if err := c.ErrAt(ev, 0); err == nil || err != error(c.programs[0].why) {
			t.Errorf("event %d: %v", ev, err)
		}
	}
	if c.Err(0) == nil || c.Err(c.events) != nil {
		t.Errorf("events: %v, runs: %v", c.Err(0), c.Err(c.events))
	}
}

// TestInstructions compares the growth of what a run counts with the instructions of the loop.
func TestInstructions(t *testing.T) {
	require.ExactPMU(t)
	require.OneCPU(t)
	for _, rounds := range []int32{1, 10, 100, 1000, 10_000, 100_000} {
		// There is a move before the loop. Sometimes the kernel's path to a reading is a few instructions shorter, perhaps in only one
		// of the two counts: then count both again.
		want, got := 1+loopInstructions*float64(rounds), math.NaN()
		for try := 0; try < 5 && !(math.Abs(got-want) <= want/100); try++ {
			got = leastInstructions(t, rounds) - leastInstructions(t, 0)
		}
		t.Logf("%d rounds: %.0f instructions more than without, want %.0f", rounds, got, want)
		if !(math.Abs(got-want) <= want/100) {
			t.Errorf("%d rounds: a run has %.0f instructions more than one of none, want %.0f", rounds, got, want)
		}
	}
}

// leastInstructions returns the instructions of a run without an interrupt.
func leastInstructions(t *testing.T, rounds int32) float64 {
	t.Helper()
	const times = 50
	prog, target := loadLoop(t, rounds)
	c := tracing(t, "instructions,cycles", target)
	check(t, c.Enable())
	run(t, prog, times)
	check(t, c.Disable())
	r := read(t, c, 0)
	lost, err := c.Losses()
	check(t, err)
	check(t, c.Close())
	if r.runs != times || r.dropped != lost[0].Dropped[count.DroppedSwitched] {
		t.Errorf("%d rounds: %d runs, dropped: %v", rounds, r.runs, &lost[0].Dropped)
	}
	runs := r.events[0].Runs
	if sum := r.events[0].Value; sum < runs.Counted*runs.Min || sum > runs.Counted*runs.Max {
		t.Errorf("%d rounds: %d in %d runs from %d to %d", rounds, sum, runs.Counted, runs.Min, runs.Max)
	}
	return float64(runs.Min)
}

// TestSumOfAWindow lets a program run all the time on the only CPU, even before and after the window. The sum is of the counted runs, each
// with the instructions of its loop, and at one instruction per nanosecond it is not more than the CPU had time for.
func TestSumOfAWindow(t *testing.T) {
	require.ExactPMU(t)
	require.OneCPU(t)
	const rounds, length = 3000, 200 * time.Millisecond
	prog, target := loadLoop(t, rounds)
	c := tracing(t, "instructions", target)
	kernelHas := kernelRuns(t, prog)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() {
		for packet := make([]byte, 64); ctx.Err() == nil; {
			if _, err := prog.Run(&ebpf.RunOptions{Data: packet}); err != nil {
				t.Error(err)
				return
			}
		}
	})
	began, runsBefore := time.Now(), kernelHas()
	check(t, c.Enable())
	time.Sleep(length)
	check(t, c.Disable())
	window, runsWithin := time.Since(began), kernelHas()-runsBefore
	r := read(t, c, 0)
	for at := kernelHas(); kernelHas() < at+100 && !t.Failed(); {
		time.Sleep(time.Millisecond)
	}
	after := read(t, c, 0)
	counted := r.events[0]
	mean := float64(counted.Value) / float64(counted.Runs.Counted)
	t.Logf("%v: %d runs, %d counted, %d dropped; %d instructions, %.1f for each, %d at least", window, r.runs, counted.Runs.Counted, r.dropped, counted.Value,
		mean, counted.Runs.Min)
	// The kernel counts a run after the exit probe: one run may be in between.
	if r.runs == 0 || r.runs > runsWithin+1 || counted.Runs.Counted+r.dropped != r.runs || counted.Value > uint64(window) {
		t.Errorf("%v: %d runs of %d, %d counted, %d dropped, %d instructions", window, r.runs, runsWithin, counted.Runs.Counted, r.dropped, counted.Value)
	}
	// The instructions of probes and interrupts are less than a fifth of the loop's.
	if least := float64(loopInstructions * rounds); mean < least || mean > 1.2*least {
		t.Errorf("%.1f instructions for each run, of which %v are the loop's", mean, least)
	}
	if after.runs != r.runs || after.events[0].Reading != counted.Reading {
		t.Errorf("after the end %d runs and %+v, before %d and %+v", after.runs, after.events[0].Reading, r.runs, counted.Reading)
	}
}

// TestRunTime lets runs follow each other quickly, so that the probes measure only a few of them. The run time is still that of all.
func TestRunTime(t *testing.T) {
	require.ExactPMU(t)
	require.OneCPU(t)
	const times, rounds = 20_000, 300
	prog, target := loadLoop(t, rounds)
	c := tracing(t, "instructions", target)
	check(t, c.Enable())
	run(t, prog, times)
	check(t, c.Disable())
	r := read(t, c, 0)
	// An instruction takes a nanosecond. The time between the readings is less than their count, and more than the loop.
	counted := r.events[0]
	t.Logf("%d runs, %d ns, %d instructions", r.runs, r.time, counted.Value)
	if r.runs != times || r.time < times*rounds*loopInstructions || r.time > counted.Value*101/100 {
		t.Errorf("%d runs, %d ns, %d instructions", r.runs, r.time, counted.Value)
	}
}

// TestUntraceable checks the reasons why programs cannot be traced.
func TestUntraceable(t *testing.T) {
	_, target := loadLoop(t, 1)
	target.JITed = false
	c := open(t, "cpu-clock", target)
	if err := c.Err(0); err == nil {
		t.Error("an interpreted program is traced")
	}
	target.JITed, target.Function = true, "no_such_function"
	if err := open(t, "cpu-clock", target).Err(0); err == nil {
		t.Error("a program is traced by another name")
	}
}
