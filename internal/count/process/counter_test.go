package process

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bperf/bperf/internal/count/shared"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/test/keeper"
	"github.com/bperf/bperf/test/program"
	"github.com/bperf/bperf/test/require"
)

const getppid = "syscalls:sys_enter_getppid"

func parse(t *testing.T, names string) event.List {
	t.Helper()
	list, err := event.Host().Parse(names)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func start(t *testing.T, names string, by Key, most uint32) *Counter {
	t.Helper()
	return startWith(t, names, by, Options{}, most)
}

func startWith(t *testing.T, names string, by Key, o Options, most uint32) *Counter {
	t.Helper()
	require.Root(t)
	require.Tracefs(t)
	c, err := open(parse(t, names), by, o, most)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	for i := range c.events {
		if err := c.Err(i); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func read(t *testing.T, c *Counter) *Reading {
	t.Helper()
	r, err := c.Read()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// sumOf returns the sum of an ID; empty if there is none.
func sumOf(r *Reading, id int) Sum {
	for _, s := range r.Sums {
		if s.ID == uint64(id) {
			return s
		}
	}
	return Sum{}
}

// waiting starts a program that waits for a byte, and returns its process ID and a function that lets it run and end.
func waiting(t *testing.T, p program.Program) (pid int, finish func()) {
	t.Helper()
	p.Wait = true
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	cmd := exec.CommandContext(ctx, p.Write(t))
	cmd.WaitDelay = time.Minute
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); cmd.Wait() })
	return cmd.Process.Pid, func() {
		t.Helper()
		if _, err := io.WriteString(in, "x"); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
}

// unlessHidden skips the test on a kernel that hides processes from BPF.
func unlessHidden(t *testing.T, r *Reading) {
	t.Helper()
	if len(r.Sums) == 1 && r.Sums[0].ID == Elsewhere {
		t.Skip("this kernel does not show BPF programs in which PID namespace this process is")
	}
}

// TestProcesses counts calls of several processes, one of them with threads and one with children.
func TestProcesses(t *testing.T) {
	c := start(t, getppid+",task-clock,context-switches", ByProcess, mostSums)
	one, finishOne := waiting(t, program.Program{Body: program.GetPPID, Times: 1000})
	many, finishMany := waiting(t, program.Program{Body: program.GetPPID, Times: 300, Tasks: 4, Threads: true})
	idle, finishIdle := waiting(t, program.Program{Body: program.Spin, Times: 1})
	waits(t, idle) // it has left its CPU then
	finishOne()
	finishMany()
	r := read(t, c)
	unlessHidden(t, r)
	hides := !require.IsGuest() // hides processes from BPF programs: their switches count for the next task
	// The wait for a process may return while its last thread still runs.
	running := func(pid int) bool { s := sumOf(r, pid); return s.Readings != nil && s.Readings[2].Value != s.Switches }
	for deadline := time.Now().Add(time.Minute); !hides && (running(one) || running(many)) && time.Now().Before(deadline); {
		r = read(t, c)
	}
	for pid, want := range map[int]uint64{one: 1000, many: 5 * 300, idle: 0} {
		if got := sumOf(r, pid); got.Readings == nil || got.Readings[0].Value != want || got.Time <= 0 || got.Switches == 0 {
			t.Errorf("process %d: %+v, want %d calls", pid, got, want)
		}
	}
	for _, s := range r.Sums {
		most := s.Switches
		if s.ID != uint64(one) && s.ID != uint64(many) { // threads that run now have not left their CPU yet
			most += uint64(runtime.NumCPU())
		}
		if n := s.Readings[2].Value; n < s.Switches || n > most && !hides {
			t.Errorf("process %d: %d context switches were counted, and %d seen", s.ID, n, s.Switches)
		}
	}
	if r.LostTime != 0 || r.LostSwitches != 0 {
		t.Errorf("lost %v, %d switches", r.LostTime, r.LostSwitches)
	}
	finishIdle()
	for range 10 {
		syscall.Getppid()
	}
	before := sumOf(read(t, c), os.Getpid())
	for range 20 {
		syscall.Getppid()
	}
	after := sumOf(read(t, c), os.Getpid())
	if got := after.Readings[0].Value - before.Readings[0].Value; got != 20 || after.Time <= before.Time {
		t.Errorf("this process called it %d times in %v", got, after.Time-before.Time)
	}
	comm, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	if after.Comm != strings.TrimSpace(string(comm)) {
		t.Errorf("this process is %q, want %q", after.Comm, comm)
	}
	if err := c.Forget(uint64(one)); err != nil {
		t.Error(err)
	}
	if s := sumOf(read(t, c), one); s.ID != 0 {
		t.Errorf("it is there still: %+v", s)
	}
	if err := c.Forget(uint64(one)); err != nil {
		t.Error(err)
	}
}

// sharing returns the directory in which the sessions of a test share perf events.
func sharing(t *testing.T) string {
	t.Helper()
	require.Root(t)
	var k keeper.Keeper
	if err := k.Open(func(string) (io.Closer, error) { return io.NopCloser(nil), nil }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	return k.Dir()
}

// TestShares counts with the perf event of a session that counts one process, and checks that both count its calls.
func TestShares(t *testing.T) {
	dir := sharing(t)
	c := startWith(t, "task-clock,"+getppid, ByProcess, Options{Dir: dir}, mostSums)
	if err := c.Apart(); err != nil {
		t.Fatal(err)
	}
	pid, finish := waiting(t, program.Program{Body: program.GetPPID, Times: 1000})
	at, err := target.Spec{PIDs: []int{pid}}.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	other, err := shared.Open(shared.Where{Dir: dir}, parse(t, getppid), at, shared.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := other.Enable(); err != nil {
		t.Fatal(err)
	}
	status, err := shared.Examine(shared.Where{Dir: dir}, time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if len(status.Events) != 2 || len(status.Sessions) != 2 || status.Sessions[0].Target != "each process" {
		t.Errorf("%+v", status)
	}
	for _, e := range status.Events {
		if want := map[string]int{"task-clock": 1, getppid: 2}[e.Name]; e.Sessions != want {
			t.Errorf("%d sessions count %s with one perf event for each CPU, want %d", e.Sessions, e.Name, want)
		}
	}
	finish()
	r := read(t, c)
	unlessHidden(t, r)
	cells, err := other.Read(nil)
	if err != nil {
		t.Fatal(err)
	}
	if own := sumOf(r, pid).Readings[1].Value; own != 1000 || cells[0].Value != 1000 {
		t.Errorf("by process: %d calls, of the process: %d, want 1000", own, cells[0].Value)
	}
	testCPUs(t, c)
}

// TestCPUs counts on each CPU.
func TestCPUs(t *testing.T) { testCPUs(t, start(t, "task-clock,"+getppid, ByProcess, mostSums)) }

// testCPUs calls on a CPU, and checks that the count of that CPU grows by the number of calls at least.
func testCPUs(t *testing.T, c *Counter) {
	t.Helper()
	of := func() (n uint64) {
		cells, err := c.ReadCPUs(nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, cell := range cells {
			if cell.Event == 1 && cell.CPU == 0 {
				n += cell.Value
			}
		}
		return n
	}
	before := of()
	if err := perfevent.OnCPU(0, func() error {
		for range 100 {
			syscall.Getppid()
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if n := of() - before; n < 100 {
		t.Errorf("CPU 0 counted %d calls, want 100", n)
	}
}

// TestApart shares with a directory that is not in bpffs: the counter opens its own events, and gives the reason.
func TestApart(t *testing.T) {
	c := startWith(t, getppid, ByProcess, Options{Dir: t.TempDir()}, mostSums)
	if c.Apart() == nil {
		t.Error("no reason")
	}
	before := read(t, c)
	unlessHidden(t, before)
	for range 20 {
		syscall.Getppid()
	}
	if n := sumOf(read(t, c), os.Getpid()).Readings[0].Value - sumOf(before, os.Getpid()).Readings[0].Value; n < 20 {
		t.Errorf("%d calls, want 20", n)
	}
}

// TestCPUComesBack takes a CPU offline and brings it back. Processes call there until one is counted in full; no count is above the number of calls.
func TestCPUComesBack(t *testing.T) {
	const times = 1000
	turn := require.SwitchCPU(t, 1)
	dir := sharing(t)
	counters := map[string]*Counter{"before": start(t, getppid, ByProcess, mostSums),
		"to share": startWith(t, getppid, ByProcess, Options{Dir: dir}, mostSums)}
	call := func(c *Counter) uint64 {
		t.Helper()
		var pid int
		var finish func()
		if err := perfevent.OnCPU(1, func() error {
			pid, finish = waiting(t, program.Program{Body: program.GetPPID, Times: times})
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		finish()
		r := read(t, c)
		unlessHidden(t, r)
		return sumOf(r, pid).Readings[0].Value
	}
	if got := call(counters["before"]); got != times {
		t.Errorf("counted %d calls, want %d", got, times)
	}
	for range 2 {
		turn("0")
		counters["without the CPU"] = start(t, getppid, ByProcess, mostSums)
		turn("1")
		for name, c := range counters {
			if err := c.Apart(); err != nil {
				t.Fatal(err)
			}
			deadline := time.Now().Add(time.Minute)
			for got := call(c); got != times; got = call(c) {
				if got > times || time.Now().After(deadline) {
					t.Fatalf("opened %s: counted %d calls, want %d", name, got, times)
				}
				time.Sleep(50 * time.Millisecond) // takes no time in an arm64 guest, where a minute of calls takes ten
			}
		}
	}
}

// TestNoRoom has room for two sums, and for four threads off the CPUs.
func TestNoRoom(t *testing.T) {
	c := startWith(t, "cpu-clock", ByProcess, Options{OffCPU: true}, 2)
	var all []func()
	for range 5 {
		pid, finish := waiting(t, program.Program{Body: program.GetPPID, Times: 10})
		waits(t, pid)
		all = append(all, finish)
	}
	if r := read(t, c); r.LostOff == 0 {
		t.Error("there was room for five threads")
	}
	for _, finish := range all {
		finish()
	}
	for range 3 {
		_, finish := waiting(t, program.Program{Body: program.GetPPID, Times: 10})
		finish()
	}
	r := read(t, c)
	if len(r.Sums) > 2 || r.LostTime <= 0 || r.LostSwitches == 0 {
		t.Errorf("%d sums, lost %v, %d switches", len(r.Sums), r.LostTime, r.LostSwitches)
	}
}

// TestCgroups counts calls in a cgroup.
func TestCgroups(t *testing.T) {
	require.Root(t)
	root, err := target.Spec{System: true, Cgroups: []string{"/"}}.Resolve()
	if err != nil {
		t.Skipf("no cgroups: %v", err)
	}
	if v1, err := target.PerfCgroupsAreV1(); err != nil || v1 {
		t.Skip("needs cgroups v2")
	}
	c := start(t, getppid, ByCgroup, mostSums)
	dir, err := os.MkdirTemp(root.Cgroups[0].Path, "bperf-test-process-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := os.Remove(dir)
		for deadline := time.Now().Add(time.Minute); err != nil && time.Now().Before(deadline); err = os.Remove(dir) {
			time.Sleep(time.Millisecond) // its tasks have not quite ended
		}
		if err != nil {
			t.Error(err)
		}
	})
	var info syscall.Stat_t
	if err := syscall.Stat(dir, &info); err != nil {
		t.Fatal(err)
	}
	pid, finish := waiting(t, program.Program{Body: program.GetPPID, Times: 700})
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
		t.Fatal(err)
	}
	finish()
	if s := sumOf(read(t, c), int(info.Ino)); s.Readings == nil || s.Readings[0].Value != 700 || s.Time <= 0 {
		t.Errorf("%+v, want 700 calls", s)
	}
}

// waits waits until a process waits for its byte.
func waits(t *testing.T, pid int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		if err == nil && exe != self && strings.Contains(string(stat), ") S ") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d does not wait: %s, %s", pid, exe, stat)
		}
	}
}

// TestInstructions counts each instruction of a process, from when it waits to its end.
func TestInstructions(t *testing.T) {
	require.ExactPMU(t)
	require.OneCPU(t)
	c := start(t, "instructions:u,cycles:u,instructions", ByProcess, mostSums)
	for _, times := range []uint64{1, 1000, 10_000_000} {
		loop := program.Program{Body: program.Spin, Times: times}
		pid, finish := waiting(t, loop)
		waits(t, pid)
		before := sumOf(read(t, c), pid).Readings
		finish()
		after := sumOf(read(t, c), pid).Readings
		for i := range after {
			after[i] = after[i].Sub(before[i])
			if after[i].Running == 0 || after[i].Running != after[i].Enabled {
				t.Errorf("event %d counted for %d of %d ns", i, after[i].Running, after[i].Enabled)
			}
		}
		if want := loop.InstructionsAfterWait(); after[0].Value != want || after[1].Value != want || after[2].Value <= want {
			t.Errorf("%d rounds: %+v, want %d in user mode", times, after, want)
		}
	}
}

func TestRefuses(t *testing.T) {
	for names, want := range map[string]string{
		"duration_time":   "duration_time is no event of a CPU: it cannot be counted by process or cgroup",
		"cgroup-switches": "cgroup-switches cannot be counted by process or cgroup: the kernel counts it when the next one runs already",
		"dummy" + strings.Repeat(",dummy", MaxEvents): "17 events are too many to count by process or cgroup: 16 are possible",
	} {
		if _, err := Open(parse(t, names), ByProcess, Options{}); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", names, err, want)
		}
	}
}
