package program

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/bperf/bperf/internal/bpfprog"
	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/event"
	system "github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/test/require"
)

// probesOn returns the number of tracing programs that are attached to a program.
func probesOn(t *testing.T, target Target) int {
	t.Helper()
	loaded, err := bpfprog.ReadAll(bpfprog.Detail{})
	check(t, err)
	tracers, err := bpfprog.Tracers(loaded)
	check(t, err)
	return int(tracers[target.ID])
}

// TestSharedProbes has many sessions in one program, with different events, that begin and end in turns. Each has all runs of its windows, and the counts of its
// events in them, as if it were alone. All share one pair of probes.
func TestSharedProbes(t *testing.T) {
	prog, target := loadLoop(t, 100)
	sessions, changes := 12, 40
	if require.Long() {
		sessions, changes = 64, 200
	}
	lists := []string{"page-faults", "page-faults,dummy", "cpu-clock", "context-switches,page-faults,cpu-migrations"}
	type counting struct {
		*Counter
		runs uint64
		on   bool
	}
	var all []*counting
	for i := range sessions {
		all = append(all, &counting{Counter: sharing(t, Options{}, lists[i%len(lists)], target)})
	}
	if n := probesOn(t, target); n != 2 {
		t.Errorf("%d probes for %d sessions, want 2", n, sessions)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range changes {
		c := all[random.IntN(len(all))]
		if c.on {
			check(t, c.Disable())
		} else {
			check(t, c.Enable())
		}
		c.on = !c.on
		n := 1 + random.IntN(50) // the kernel treats 0 as 1
		run(t, prog, n)
		for _, c := range all {
			if c.on {
				c.runs += uint64(n)
			}
		}
	}
	for i, c := range all {
		r := read(t, c.Counter, 0)
		lost, err := c.Losses()
		check(t, err)
		// A run is dropped if the test's thread was switched away from during it.
		if r.runs != c.runs || r.dropped != lost[0].Dropped[count.DroppedSwitched] {
			t.Errorf("session %d: %d runs, want %d; dropped %v", i, r.runs, c.runs, &lost[0].Dropped)
		}
		for ev, e := range r.events {
			var inBuckets uint64
			for _, n := range e.Runs.Buckets {
				inBuckets += n
			}
			if e.Runs.Counted != r.runs-r.dropped || inBuckets != e.Runs.Counted {
				t.Errorf("session %d: event %d: %d of %d runs counted, %d in the histogram", i, ev, e.Runs.Counted, r.runs, inBuckets)
			}
			if e.Runs.Ranged != (e.Runs.Counted > 0) {
				t.Errorf("session %d: event %d: extremes %v with %d runs", i, ev, e.Runs.Ranged, e.Runs.Counted)
			}
		}
		check(t, c.Close())
	}
	if n := probesOn(t, target); n != 0 {
		t.Errorf("%d probes are left", n)
	}
}

// TestSharedExtremes begins sessions between runs of different length. Each has the extremes of its own window, whichever sessions begin or end in it.
func TestSharedExtremes(t *testing.T) {
	require.ExactPMU(t)
	require.OneCPU(t)
	prog, target := load(t, &ebpf.ProgramSpec{Type: ebpf.SocketFilter, Instructions: loopOfLength()})
	round := func(length int) {
		t.Helper()
		_, err := prog.Run(&ebpf.RunOptions{Data: make([]byte, length+14)}) // the kernel removes the Ethernet header
		check(t, err)
	}
	const near = 14_000 // interrupts; runs differ by 15,360 at least
	want := map[string][2]uint64{}
	open := map[string]*Counter{}
	begin := func(name string) {
		t.Helper()
		open[name] = sharing(t, Options{}, "instructions", target)
		check(t, open[name].Enable())
		want[name] = [2]uint64{1 << 62, 0}
	}
	end := func(name string) {
		t.Helper()
		check(t, open[name].Disable())
		runs := read(t, open[name], 0).events[0].Runs
		if w := want[name]; runs.Min < w[0] || runs.Min > w[0]+near || runs.Max < w[1] || runs.Max > w[1]+near {
			t.Errorf("%s: runs from %d to %d instructions, want %d to %d and at most %d more", name, runs.Min, runs.Max, w[0], w[1], near)
		}
		check(t, open[name].Close())
		delete(want, name)
	}
	runs := func(lengths ...int) {
		t.Helper()
		for _, n := range lengths {
			round(n)
			for name, w := range want {
				took := uint64(n * lengthRounds * loopInstructions)
				want[name] = [2]uint64{min(w[0], took), max(w[1], took)}
			}
		}
	}
	begin("first")
	runs(40, 100)
	begin("second")
	runs(50, 90)
	begin("third")
	runs(70)
	end("second") // gives its extremes to the first
	runs(80)
	begin("fourth")
	runs(75, 60)
	end("fourth") // the last that began
	runs(120)
	end("third")
	runs(20)
	end("first")
}

// TestSharedCalibration has sessions with and without --calibrate, and one with more events, in one program. Each has its own counts.
func TestSharedCalibration(t *testing.T) {
	require.ExactPMU(t)
	require.OneCPU(t)
	const rounds, times, near = 1000, 100, 30
	prog, target := loadLoop(t, rounds)
	alone := sharing(t, Options{Probes: true}, "instructions", target)
	calibrated := sharing(t, Options{Calibrate: true}, "instructions", target)
	check(t, alone.Enable())
	check(t, calibrated.Enable())
	run(t, prog, times)
	others := sharing(t, Options{}, "instructions,cycles,instructions:u,page-faults", target)
	check(t, others.Enable()) // the overhead grows from here on
	run(t, prog, times)
	check(t, others.Close())
	run(t, prog, times)
	check(t, calibrated.Disable())
	check(t, alone.Disable())
	own := uint64(rounds * loopInstructions)
	r := read(t, calibrated, 0).events[0].Runs
	if r.Counted != 3*times || r.Min < own-near || r.Min > own+near {
		t.Errorf("calibrated: %d runs, at least %d instructions in one, want %d", r.Counted, r.Min, own)
	}
	median, _ := r.Quantile(0.5)
	if median > float64(own+near)*1.125 {
		t.Errorf("calibrated: the median is %v", median)
	}
	all := read(t, alone, 0).events[0]
	probes, known := all.Runs.ProbesPerRun()
	mean := all.Value / all.Runs.Counted
	t.Logf("a run has %d instructions, of which %d are the probes'; calibrated at least %d", mean, probes, r.Min)
	// The mean includes interrupts during runs, each of some thousand instructions: a test had 47,000 in 300 runs. Overhead that is not
	// subtracted would be more.
	if all.Runs.Counted != 3*times || !known || mean-probes < own || mean-probes > own+own/5 {
		t.Errorf("%d runs of %d instructions, %d of them the probes', want %d without them", all.Runs.Counted, mean, probes, own)
	}
}

// TestSharedCounts has up to 19 sessions at the same time. No session counts what the probes do for another.
func TestSharedCounts(t *testing.T) {
	require.ExactPMU(t)
	require.OneCPU(t)
	const times = 10
	prog, target := loadLoop(t, 1000)
	var all []*Counter
	var one uint64
	for _, sessions := range []int{1, 2, 4, 19} {
		for len(all) < sessions {
			c := sharing(t, Options{Probes: true}, "instructions,cycles", target)
			check(t, c.Enable())
			all = append(all, c)
		}
		// An interrupt during a run executes up to some ten thousand instructions, which count, too. The least of several tries has no interrupt.
		least := make([]uint64, sessions)
		for range 20 {
			before := make([]uint64, sessions)
			for i, c := range all {
				before[i] = read(t, c, 0).events[0].Value
			}
			run(t, prog, times)
			for i, c := range all {
				if mean := (read(t, c, 0).events[0].Value - before[i]) / times; least[i] == 0 || mean < least[i] {
					least[i] = mean
				}
			}
		}
		if sessions == 1 {
			one = least[0]
		}
		t.Logf("%d sessions: %d instructions in a run", sessions, least[0])
		for i, n := range least {
			if n < one-one/100 || n > one+one/100 {
				t.Errorf("session %d of %d: %d instructions in a run, which alone had %d", i, sessions, n, one)
			}
		}
	}
}

// TestSharedAndOwn has a session that shares nothing beside some that do.
func TestSharedAndOwn(t *testing.T) {
	prog, target := loadLoop(t, 10)
	shares := sharing(t, Options{}, "cpu-clock", target)
	own := openFor(t, Options{}, "cpu-clock", target)
	check(t, shares.Enable())
	check(t, own.Enable())
	run(t, prog, 20)
	for i, c := range []*Counter{shares, own} {
		check(t, c.Disable())
		if r := read(t, c, 0); r.runs != 20 {
			t.Errorf("session %d: %d runs, want 20", i, r.runs)
		}
	}
	if n := probesOn(t, target); n != 4 {
		t.Errorf("%d probes, want 2 for each", n)
	}
}

// startSession starts a process that counts in a program, and waits until it does.
func startSession(t *testing.T, id uint32, events string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", sessionArg, common.Dir(), fmt.Sprint(id), events)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("a session of %s did not begin: %v", events, err)
	}
	return cmd
}

// sessionArg makes the test binary a session of startSession.
const sessionArg = "session"

// beSession counts until it is killed.
func beSession(dir, id, events string) error {
	n, err := strconv.ParseUint(id, 10, 32)
	if err != nil {
		return err
	}
	list, err := event.Host().Parse(events)
	if err != nil {
		return err
	}
	at, err := system.Spec{System: true}.Resolve()
	if err != nil {
		return err
	}
	of := Target{ID: uint32(n), Name: "loop", Function: "loop", JITed: true}
	c, err := Open(list, []Target{of}, at, Options{Sharing: Sharing{Dir: dir, Required: true}})
	if err != nil {
		return err
	}
	defer c.Close()
	if err := errors.Join(c.Err(0), c.Enable()); err != nil {
		return err
	}
	fmt.Println("counts")
	for {
		if _, err := c.Read(nil); err != nil {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// TestSharedKill kills sessions while the program runs; some have events that no other session has. The counts of the others stay exact, and after the last session
// nothing is left.
func TestSharedKill(t *testing.T) {
	prog, target := loadLoop(t, 100)
	lists := []string{"page-faults", "dummy", "context-switches,page-faults", "cpu-clock,cpu-migrations"}
	survivors := []*Counter{sharing(t, Options{}, "page-faults", target), sharing(t, Options{}, "task-clock,dummy", target)}
	for _, c := range survivors {
		check(t, c.Enable())
	}
	killed := 6
	if require.Long() {
		killed = 32
	}
	var others []*exec.Cmd
	for i := range killed {
		others = append(others, startSession(t, target.ID, lists[i%len(lists)]))
	}
	random := rand.New(rand.NewPCG(3, 4))
	random.Shuffle(len(others), func(i, k int) { others[i], others[k] = others[k], others[i] })
	var want uint64
	for i, cmd := range others {
		check(t, cmd.Process.Kill())
		run(t, prog, 20)
		want += 20
		cmd.Wait()
		if i%4 == 0 { // sweeps the killed sessions
			c := sharing(t, Options{}, "minor-faults", target)
			check(t, c.Enable())
			run(t, prog, 10)
			want += 10
			if r := read(t, c, 0); r.runs != 10 {
				t.Errorf("a session of 10 runs counted %d", r.runs)
			}
			check(t, c.Close())
		}
	}
	for i, c := range survivors {
		r := read(t, c, 0)
		lost, err := c.Losses()
		check(t, err)
		if r.runs != want || r.dropped != lost[0].Dropped[count.DroppedSwitched] {
			t.Errorf("survivor %d: %d runs, want %d; dropped: %v", i, r.runs, want, &lost[0].Dropped)
		}
		check(t, c.Close())
	}
	if n := probesOn(t, target); n != 0 {
		t.Errorf("%d probes are left", n)
	}
	left, err := filepath.Glob(filepath.Join(common.Dir(), "programs-*"))
	if check(t, err); len(left) > 0 {
		t.Errorf("there still is %v", left)
	}
}
