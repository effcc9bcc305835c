package process

import (
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/bperf/bperf/test/program"
	"github.com/bperf/bperf/test/require"
)

// offCPU reads until the sum of a process is as wanted: times are counted when the thread leaves a CPU the next time.
func offCPU(t *testing.T, c *Counter, pid int, ok func(*Sum) bool) Sum {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
		s := sumOf(read(t, c), pid)
		if ok(&s) {
			return s
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d: %+v", pid, s)
		}
	}
}

// TestSleeping checks that the time off the CPUs has all sleeps of a program, and that no time is in two sums.
func TestSleeping(t *testing.T) {
	const times = 30 // sleeps of a millisecond
	c := startWith(t, "task-clock", ByProcess, Options{OffCPU: true}, mostSums)
	begin := time.Now()
	pid, finish := waiting(t, program.Program{Body: program.Sleep, Times: times})
	finish()
	all := func(s *Sum) time.Duration {
		return s.Time + s.OffCPU[Runnable] + s.OffCPU[Sleeping] + s.OffCPU[Blocked]
	}
	s := offCPU(t, c, pid, func(s *Sum) bool { return all(s) >= times*time.Millisecond })
	if elapsed := time.Since(begin); all(&s) > elapsed {
		t.Errorf("%v of time in %v: %+v", all(&s), elapsed, s)
	}
	// The rest of a sleep is on the CPU or in its queue, if something holds the thread up before it has left the CPU.
	if s.OffCPU[Sleeping] < times*time.Millisecond/2 {
		t.Errorf("%v in %d sleeps: %+v", s.OffCPU[Sleeping], times, s)
	}
}

// TestRunnable has four threads for each CPU, so that three of four wait for one.
func TestRunnable(t *testing.T) {
	c := startWith(t, "task-clock", ByProcess, Options{OffCPU: true}, mostSums)
	pid, finish := waiting(t, program.Program{Body: program.Spin, Times: 50_000_000, Tasks: uint16(4 * runtime.NumCPU()), Threads: true})
	finish()
	s := offCPU(t, c, pid, func(s *Sum) bool { return s.Time > 0 })
	if s.OffCPU[Runnable] < s.Time/4 {
		t.Errorf("%+v", s)
	}
}

// TestBlocked waits in vfork(2), which no signal but SIGKILL ends.
func TestBlocked(t *testing.T) {
	const sleep = 50 * time.Millisecond
	require.Root(t)
	c := startWith(t, "task-clock", ByProcess, Options{OffCPU: true}, mostSums)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	time.Sleep(time.Millisecond) // the thread is known from when it leaves a CPU
	offCPU(t, c, os.Getpid(), func(s *Sum) bool {
		vfork(t, sleep) // the child's sleep can begin before this thread waits
		return s.OffCPU[Blocked] >= sleep
	})
}

// vfork makes this thread wait for a child that sleeps.
func vfork(t *testing.T, sleep time.Duration) {
	t.Helper()
	ts := syscall.NsecToTimespec(sleep.Nanoseconds())
	child := fork(&ts)
	if child <= 0 {
		t.Fatal(syscall.Errno(-child))
	}
	if _, err := syscall.Wait4(child, nil, 0, nil); err != nil {
		t.Fatal(err)
	}
}

// TestWithoutOffCPU checks that nobody pays for what was not asked for.
func TestWithoutOffCPU(t *testing.T) {
	c := start(t, "task-clock", ByProcess, mostSums)
	pid, finish := waiting(t, program.Program{Body: program.Sleep, Times: 2})
	finish()
	if s := sumOf(read(t, c), pid); s.Switches == 0 || s.OffCPU != [Reasons]time.Duration{} {
		t.Errorf("%+v", s)
	}
	if n := c.objects.Maps[tasksMapThreads].MaxEntries(); n != 1 {
		t.Errorf("room for %d threads", n)
	}
}
