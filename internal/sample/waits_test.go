package sample

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/internal/record"
	"github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/test/program"
	"github.com/bperf/bperf/test/require"
)

// The duration and number of sleeps of the load's functions.
const (
	onceLong, onceShort = 3 * time.Millisecond, time.Millisecond
	naps                = 40
)

// sleepInFunctions blocks its thread for known times in known functions.
func sleepInFunctions() error {
	runtime.LockOSThread()
	for range naps {
		if err := napLong(); err != nil {
			return err
		}
		if err := napShort(); err != nil {
			return err
		}
	}
	return nil
}

//go:noinline
func napLong() error {
	err := nap(onceLong)
	sink++ // so that it is no tail call
	return err
}

// nap sleeps for the whole time: Go's runtime interrupts system calls on a busy machine.
func nap(d time.Duration) error {
	ts := syscall.NsecToTimespec(int64(d))
	for {
		if err := syscall.Nanosleep(&ts, &ts); err != syscall.EINTR {
			return err
		}
	}
}

//go:noinline
func napShort() error {
	err := nap(onceShort)
	sink++
	return err
}

// handovers is the number of times that the turn goes from one thread to the other and back.
const handovers = 100

// handOver makes two threads pass the turn to each other. Each of them does so when the other one is blocked, and so wakes it.
func handOver() error {
	there, back := make([]int, 2), make([]int, 2)
	if err := errors.Join(syscall.Pipe(there), syscall.Pipe(back)); err != nil {
		return err
	}
	ping, pong := make(chan int, 1), make(chan int, 1)
	errs := make([]error, 2)
	var threads sync.WaitGroup
	threads.Go(func() {
		pass, await, err := player("ping", ping, pong, there, back)
		for range handovers {
			err = errors.Join(err, pass(), await())
		}
		errs[0] = err
	})
	threads.Go(func() {
		pass, await, err := player("pong", pong, ping, back, there)
		for range handovers {
			err = errors.Join(err, await(), pass())
		}
		errs[1] = err
	})
	threads.Wait()
	return errors.Join(errs...)
}

// player makes this goroutine's thread one of two: pass gives the turn to the other one when that is blocked, and await waits for it.
func player(name string, self chan<- int, other <-chan int, to, from []int) (pass, await func() error, err error) {
	runtime.LockOSThread()
	const setName = 15 // PR_SET_NAME from include/uapi/linux/prctl.h
	text := append([]byte(name), 0)
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, setName, uintptr(unsafe.Pointer(&text[0])), 0); errno != 0 {
		err = errno
	}
	self <- syscall.Gettid()
	call, openErr := syscall.Open(fmt.Sprintf("/proc/self/task/%d/syscall", <-other), syscall.O_RDONLY, 0)
	blocked := fmt.Appendf(nil, "%d %#x ", syscall.SYS_READ, to[0])
	turn, state := make([]byte, 1), make([]byte, 256)
	pass = func() error {
		for {
			n, err := syscall.Pread(call, state, 0) // not read(2), which is what the other one is blocked in
			if err != nil {
				return err
			}
			if bytes.HasPrefix(state[:n], blocked) {
				break
			}
			runtime.Gosched()
		}
		_, err := syscall.Write(to[1], turn)
		return err
	}
	await = func() error {
		_, err := syscall.Read(from[0], turn)
		return err
	}
	return pass, await, errors.Join(err, openErr)
}

// offCPUConfig returns a configuration that measures only the off-CPU time of a command.
func offCPUConfig(t *testing.T, by string, command ...string) Config {
	t.Helper()
	cfg := config(t, "cpu-clock", command...)
	cfg.Record.Events, cfg.OffCPU = nil, true
	var err error
	cfg.By, err = ParseKeys(strings.Split(by, ","))
	check(t, err)
	cfg.Keep |= profile.TID | profile.Other
	return cfg
}

// blocked is a sample as text.
type blocked struct {
	comm, state, waker, wall string
	pid, tid                 int32
	functions                []string
	count                    uint64
	time                     time.Duration
}

func blockedOf(p *profile.Profile) (all []blocked) {
	for _, s := range p.Samples() {
		l := p.Labels()[s.Labels]
		b := blocked{comm: p.Strings.At(l.Comm), pid: l.PID, tid: l.TID, count: s.Count, time: time.Duration(s.Value)}
		for id := l.Tags; id != 0; id = p.Tags.At(id).Next {
			tag := p.Tags.At(id)
			value := p.Strings.At(tag.Value)
			switch p.Strings.At(tag.Key) {
			case "state":
				b.state = value
			case "waker":
				b.waker = value
			case wallTag:
				b.wall = value
			}
		}
		for id := range p.Stacks.Frames(s.Stack) {
			b.functions = append(b.functions, p.Strings.At(p.Functions.At(p.Frames()[id].Function).Name))
		}
		all = append(all, b)
	}
	return all
}

// bound checks the time of a thread that sleeps for a total time in several parts. The timer already runs when the thread leaves its CPU,
// and the thread may wait there on a busy machine. So the minimum is half of the time, and the maximum is the time of the whole run.
func bound(t *testing.T, what string, got, sleeps, wall time.Duration) {
	t.Helper()
	if got < sleeps/2 || got > wall {
		t.Errorf("%s was blocked for %v, want %v to %v", what, got, sleeps/2, wall)
	}
}

func TestOffCPUThreads(t *testing.T) {
	require.AnyArch(t)
	const times, threads = 60, 3
	sleep := program.Program{Body: program.Sleep, Times: times, Tasks: threads, Threads: true}.Write(t)
	for _, entries := range []uint32{0, 16} {
		cfg := offCPUConfig(t, "tid,state", sleep)
		cfg.Entries = entries
		start := time.Now()
		r := take(t, cfg)
		wall := time.Since(start)
		sums, counts := make(map[int32]time.Duration), make(map[int32]uint64)
		for _, b := range blockedOf(r.Profile) {
			if b.comm != "program" { // it was not executed yet
				continue
			}
			if b.state != "S" && b.state != "D" {
				t.Errorf("a thread was blocked in the state %q", b.state)
			}
			sums[b.tid] += b.time
			counts[b.tid] += b.count
		}
		for tid, sum := range sums {
			bound(t, fmt.Sprint("thread ", tid), sum, times*time.Millisecond, wall)
			if counts[tid] < times/2 || counts[tid] > 2*times+100 {
				t.Errorf("thread %d was blocked %d times, and sleeps %d times", tid, counts[tid], times)
			}
		}
		for _, e := range r.Profile.Events {
			if e.Samples > 0 && (e.Name != "offcpu-time" || e.Unit != "ns" || e.Value != uint64(r.Totals.OffCPU.Total)) {
				t.Errorf("there is the event %+v", e)
			}
		}
		if len(sums) != threads+1 {
			t.Errorf("%d threads, want %d", len(sums), threads+1)
		}
		if o := r.Totals.OffCPU; o.Times+o.Still != r.Totals.Samples || o.Lost != 0 || o.Targets != 0 {
			t.Errorf("%d samples: %+v", r.Totals.Samples, o)
		}
	}
}

func TestOffCPUFunctions(t *testing.T) {
	start := time.Now()
	r := take(t, offCPUConfig(t, "comm,state,stack", load(t, "sleep", 0)...))
	wall := time.Since(start)
	sums := make(map[string]time.Duration)
	for _, b := range blockedOf(r.Profile) {
		for _, f := range b.functions {
			_, name, _ := strings.Cut(f, "internal/sample.")
			sums[name] += b.time
		}
		if strings.HasPrefix(b.functions[0], "__schedule") || strings.HasPrefix(b.functions[0], "bpf_") {
			t.Errorf("a thread was blocked in %v", b.functions)
		}
	}
	bound(t, "napLong", sums["napLong"], naps*onceLong, wall)
	bound(t, "napShort", sums["napShort"], naps*onceShort, wall)
	if sums["sleepInFunctions"] != sums["napLong"]+sums["napShort"] {
		t.Errorf("sleepInFunctions was blocked for %v, what it calls for %v and %v", sums["sleepInFunctions"], sums["napLong"], sums["napShort"])
	}
}

func TestWakers(t *testing.T) {
	require.AnyArch(t)
	r := take(t, offCPUConfig(t, "comm,pid,waker,stack", load(t, "handover", 0)...))
	pid := r.Profile.Labels()[r.Profile.Samples()[0].Labels].PID
	woken := make(map[string]uint64)
	for _, b := range blockedOf(r.Profile) {
		if slices.Contains(b.functions, "syscall.read") {
			woken[b.waker+" "+b.comm] += b.count
		}
	}
	for _, pair := range []string{"ping:%d pong", "pong:%d ping"} {
		pair = fmt.Sprintf(pair, pid)
		// The first stacks may be truncated, because bperf builds the program's unwind tables while it runs.
		if n := woken[pair]; n == 0 || n > handovers {
			t.Errorf("%d times %s, want at most %d: %v", n, pair, handovers, woken)
		}
	}
}

// TestStillBlocked measures a thread that is blocked at the end.
func TestStillBlocked(t *testing.T) {
	require.AnyArch(t)
	cfg := offCPUConfig(t, "comm,stack")
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "read x; exec sleep 1000")
	cmd.WaitDelay = time.Minute
	in, err := cmd.StdinPipe()
	check(t, err)
	check(t, cmd.Start())
	defer func() { _ = cmd.Wait() }()
	defer func() { _ = cmd.Process.Kill() }()
	signals := make(chan os.Signal, 1)
	cfg.Record.Target, cfg.Record.Signals, cfg.Record.Delay = target.Spec{PIDs: []int{cmd.Process.Pid}}, signals, time.Millisecond
	failed := make(chan error, 1)
	cfg.Record.Notify = func(s string) {
		if s != "Events enabled" {
			return
		}
		go func() {
			_, err := in.Write([]byte("\n"))
			for err == nil && !sleeps(cmd.Process.Pid) {
				runtime.Gosched()
				err = t.Context().Err()
			}
			failed <- err
			signals <- syscall.SIGINT
		}()
	}
	r := take(t, cfg)
	check(t, <-failed)
	if r.Totals.OffCPU.Still != 1 {
		t.Errorf("%+v: want one that is still blocked", r.Totals.OffCPU)
	}
	if !slices.ContainsFunc(blockedOf(r.Profile), func(b blocked) bool { return b.comm == "sleep" && b.time > 0 && len(b.functions) > 2 }) {
		t.Errorf("nothing of what is still blocked: %+v", blockedOf(r.Profile))
	}
}

// started starts a command, and kills it at the end of the test.
func started(t *testing.T, name string, args ...string) (cmd *exec.Cmd, in io.WriteCloser) {
	t.Helper()
	cmd = exec.CommandContext(t.Context(), name, args...)
	cmd.WaitDelay = time.Minute
	in, err := cmd.StdinPipe()
	check(t, err)
	check(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	return cmd, in
}

// until waits until a condition is true.
func until(t *testing.T, is func() bool) {
	t.Helper()
	for !is() {
		check(t, t.Context().Err())
		runtime.Gosched()
	}
}

// TestBlockedBefore measures threads that were blocked before the start: one stays asleep, the other one is woken.
func TestBlockedBefore(t *testing.T) {
	require.AnyArch(t)
	require.Root(t)
	sleeper, _ := started(t, "sleep", "1000")
	reader, in := started(t, program.Program{Body: program.Spin, Times: 1, Wait: true}.Write(t))
	until(t, func() bool {
		return sleeps(sleeper.Process.Pid) && inCall(reader.Process.Pid, "program", syscall.SYS_READ)
	})
	cfg := offCPUConfig(t, "pid,state,waker,stack")
	signals := make(chan os.Signal, 1)
	cfg.Record.Target, cfg.Record.Signals, cfg.Record.Delay = target.Spec{PIDs: []int{sleeper.Process.Pid, reader.Process.Pid}}, signals, time.Millisecond
	failed := make(chan error, 1)
	var began time.Time
	var waited time.Duration
	cfg.Record.Notify = func(s string) {
		if s != "Events enabled" {
			return
		}
		began = time.Now()
		go func() {
			for time.Since(began) < 20*time.Millisecond { // so that there is a time
				runtime.Gosched()
			}
			waited = time.Since(began)
			failed <- errors.Join(in.Close(), reader.Wait())
			signals <- syscall.SIGINT
		}()
	}
	start := time.Now()
	r := take(t, cfg)
	wall := time.Since(start)
	check(t, <-failed)
	var slept, read blocked
	for _, b := range blockedOf(r.Profile) {
		switch {
		case b.pid == int32(sleeper.Process.Pid):
			slept = b
		case b.comm == "program" && b.time > read.time:
			read = b
		}
	}
	for what, b := range map[string]blocked{"sleep": slept, "program": read} {
		if b.count != 1 || b.comm != what || b.state != "S" || b.time < waited || b.time > wall {
			t.Errorf("%s: %+v, want %v to %v", what, b, waited, wall)
		}
	}
	within := func(b blocked, part string) bool {
		return slices.ContainsFunc(b.functions, func(f string) bool { return strings.Contains(f, part) })
	}
	if !within(slept, "nanosleep") || !within(read, "read") || slept.waker != "unknown" || !strings.HasSuffix(read.waker, fmt.Sprint(":", os.Getpid())) {
		t.Errorf("blocked in %q and %q, woken by %q and %q", slept.functions, read.functions, slept.waker, read.waker)
	}
	if r.Totals.OffCPU.Still != 1 {
		t.Errorf("%+v: want one that is still blocked", r.Totals.OffCPU)
	}
}

// sysClockNanosleep is the system call clock_nanosleep, which package syscall has no name for on all architectures.
var sysClockNanosleep = map[string]int{"amd64": 230, "arm64": 115}[runtime.GOARCH]

// sleeps reports whether a process is sleep(1), and blocked in the system call for it.
func sleeps(pid int) bool {
	return inCall(pid, "sleep", syscall.SYS_NANOSLEEP) || inCall(pid, "sleep", sysClockNanosleep)
}

// inCall reports whether a process with a name is blocked in a system call.
func inCall(pid int, name string, number int) bool {
	proc := filepath.Join("/proc", fmt.Sprint(pid))
	comm, _ := os.ReadFile(filepath.Join(proc, "comm")) // it is not, if it has ended
	call, _ := os.ReadFile(filepath.Join(proc, "syscall"))
	return string(comm) == name+"\n" && bytes.HasPrefix(call, fmt.Appendf(nil, "%d ", number))
}

// TestWall measures the time on CPUs and the off-CPU time in one event.
func TestWall(t *testing.T) {
	require.AnyArch(t)
	const onCPUs = time.Second / 5
	cfg := config(t, "cpu-clock", load(t, "wall", onCPUs)...)
	cfg.Record.Period, cfg.Wall, cfg.Keep = 1_000_000, true, cfg.Keep|profile.Other
	cfg.By, cfg.Record.NoIdle = Keys{Stack: true, Comm: true, PID: true, State: true}, true
	start := time.Now()
	r := take(t, cfg)
	wall := time.Since(start)
	if n := len(r.Profile.Events); n > 2 || r.Profile.Events[0].Samples != r.Totals.Samples || r.Profile.Events[0].Unit != "ns" {
		t.Errorf("events %+v, want all %d samples in the first", r.Profile.Events, r.Totals.Samples)
	}
	naping, on := time.Duration(0), time.Duration(0)
	for _, b := range blockedOf(r.Profile) {
		if (b.wall == onCPU) != (b.state == "R") || b.wall != onCPU && b.wall != offCPU {
			t.Errorf("%s in the state %s", b.wall, b.state)
		}
		if b.wall == onCPU {
			on += b.time
			if b.time != time.Duration(b.count)*time.Millisecond {
				t.Errorf("%d samples of each millisecond are %v", b.count, b.time)
			}
		} else if slices.ContainsFunc(b.functions, func(f string) bool { return strings.HasSuffix(f, ".sleepInFunctions") }) {
			naping += b.time
		}
	}
	bound(t, "sleepInFunctions", naping, naps*(onceLong+onceShort), wall)
	if on == 0 { // how many timers a busy machine is late for is not known
		t.Errorf("nothing on CPUs, want %v", onCPUs)
	}
}

// TestOffCPUCgroup measures the threads of a cgroup: one that sleeps since before the start, and one that begins to wait. Others are not
// measured.
func TestOffCPUCgroup(t *testing.T) {
	require.AnyArch(t)
	require.Root(t)
	dir := newCgroup(t)
	sleep := program.Program{Body: program.Sleep, Times: 20, Wait: true}.Write(t)
	for name, wall := range map[string]bool{"--off-cpu": false, "--wall": true} {
		t.Run(name, func(t *testing.T) {
			before, _ := started(t, "sleep", "1000")
			until(t, func() bool { return sleeps(before.Process.Pid) })
			wanted, in := started(t, sleep)
			other, alsoIn := started(t, sleep)
			for _, cmd := range []*exec.Cmd{before, wanted} {
				check(t, os.WriteFile(filepath.Join(dir, "cgroup.procs"), fmt.Append(nil, cmd.Process.Pid), 0o600))
			}
			cfg := offCPUConfig(t, "pid,state")
			if wall {
				cfg = config(t, "cpu-clock")
				cfg.By, cfg.Wall, cfg.Record.NoIdle = Keys{PID: true, State: true}, true, true
				cfg.Record.Period, cfg.Keep = 1_000_000, cfg.Keep|profile.Other
			}
			cfg.Record.Target = target.Spec{System: true, Cgroups: []string{filepath.Base(dir)}}
			cfg.Record.EventCgroups = cfg.Record.Target.Cgroups
			r := whileEnabled(t, cfg, func() error { return errors.Join(in.Close(), alsoIn.Close(), wanted.Wait(), other.Wait()) })
			times := make(map[int32]uint64)
			for _, b := range blockedOf(r.Profile) {
				if b.pid != int32(before.Process.Pid) && b.pid != int32(wanted.Process.Pid) {
					t.Errorf("a sample of another process: %+v", b)
				}
				if b.state == "S" {
					times[b.pid] += b.count
				}
			}
			if times[int32(before.Process.Pid)] != 1 || times[int32(wanted.Process.Pid)] < 10 {
				t.Errorf("times that %d, which sleeps on, and %d were blocked: %v", before.Process.Pid, wanted.Process.Pid, times)
			}
		})
	}
}

func TestOffCPUText(t *testing.T) {
	o := OffCPU{Times: 7, Still: 2, Total: 1500 * time.Millisecond}
	if got := o.String(); got != "Threads were blocked 7 times, and 2 were at the end: 1.500 s in all" {
		t.Error(got)
	}
	o.Lost, o.Room, o.Targets = 3, 2048, 4
	if got := o.String(); !strings.Contains(got, "\n3 times that") || !strings.Contains(got, "--map-entries 4096") || !strings.Contains(got, "\n4 threads") {
		t.Error(got)
	}
}

func TestCheck(t *testing.T) {
	filtered := Config{Wall: true}
	filtered.Record.Events = event.List{{Events: []*event.Event{{Filter: "ip > 1"}}}}
	tracepoint := event.List{{Events: []*event.Event{{Name: "cpu-clock"}, {Name: "sched:sched_switch", Tracepoint: "sched:sched_switch"}}}}
	traced := func(by Keys) Config { return Config{By: by, Record: record.Config{Events: tracepoint}} }
	for _, tt := range []struct {
		cfg Config
		ok  bool
	}{
		{Config{}, true},
		{Config{By: Keys{Weight: true, DataSrc: true, PhysAddr: true}, OffCPU: true}, true},
		{traced(Keys{Addr: true}), true},
		{traced(Keys{Weight: true}), false},
		{traced(Keys{DataSrc: true}), false},
		{traced(Keys{PhysAddr: true}), false},
		{Config{By: Keys{Waker: true}}, false},
		{Config{By: Keys{Waker: true}, OffCPU: true}, true},
		{Config{By: Keys{Waker: true}, Wall: true}, true},
		{Config{Ranges: []Range{{1, 2}}}, true},
		{Config{Ranges: []Range{{1, 2}}, OffCPU: true}, false},
		{Config{Programs: []Range{{1, 2}}, Wall: true}, false},
		{Config{Functions: []string{"f"}, Wall: true}, false},
		{filtered, false},
	} {
		if err := tt.cfg.Check(); (err == nil) != tt.ok {
			t.Errorf("%+v: %v", tt.cfg, err)
		}
	}
}
