package record

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bperf/bperf/internal/record/snapshot"
	"github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/program"
	"github.com/bperf/bperf/test/require"
)

// blockedTask is what a recording has of one thread.
type blockedTask struct {
	pid, tid int32
	comm     string // at its last sample
	samples  int
	total    time.Duration
	longest  time.Duration
}

// offCPUConfig is a recording of off-CPU time alone.
func offCPUConfig(t *testing.T, threshold time.Duration) Config {
	cfg := config(t, "cpu-clock")
	cfg.NoSamples, cfg.OffCPU, cfg.NoBPF = true, &threshold, true
	return cfg
}

// readBlocked reads the off-CPU times of threads in a recording, in the order in which a reader gets them.
func readBlocked(t *testing.T, name string) map[int32]*blockedTask {
	t.Helper()
	r, err := perfdata.Open(name)
	check(t, err)
	defer r.Close()
	tasks, comms, last := make(map[int32]*blockedTask), make(map[int32]string), uint64(0)
	for rec, err := range r.Records() {
		check(t, err)
		switch v := rec.Value.(type) {
		case *perfdata.Comm:
			comms[v.TID] = v.Comm
		case *perfdata.Fork:
			comms[v.TID] = comms[v.ParentTID]
		case *perfdata.Sample:
			if rec.Event.Name != OffCPUName {
				t.Fatalf("a sample of %s", rec.Event.Name)
			}
			b := tasks[v.TID]
			if b == nil {
				b = &blockedTask{pid: v.PID, tid: v.TID}
				tasks[v.TID] = b
			}
			period := time.Duration(v.Period)
			b.samples, b.total, b.longest, b.comm = b.samples+1, b.total+period, max(b.longest, period), comms[v.TID]
			if v.Time < last {
				t.Errorf("a sample at %d comes after one at %d", v.Time, last)
			}
			last = v.Time
			if len(v.Callchain) < 2 {
				t.Errorf("a sample of %s has the callchain %x", b.comm, v.Callchain)
			}
		}
	}
	return tasks
}

// sleeper returns a program whose threads, and one more, sleep for 1 ms a number of times.
func sleeper(t *testing.T, times uint64, threads uint16, wait bool) string {
	return program.Program{Body: program.Sleep, Times: times, Tasks: threads, Threads: true, Wait: wait}.Write(t)
}

// bound checks the time of a thread that sleeps for 1 ms a number of times. The timer already runs when the thread leaves its CPU, and the thread may
// wait there on a busy machine. So the minimum is half of the time, and the maximum is the time of the recording.
func (b *blockedTask) bound(t *testing.T, times int, wall time.Duration) {
	t.Helper()
	if least := time.Duration(times) * time.Millisecond / 2; b.total < least || b.total > wall {
		t.Errorf("thread %d of %d was blocked for %v, want %v to %v", b.tid, b.pid, b.total, least, wall)
	}
}

// TestOffCPU measures the sleeps of a command's threads, as samples or as sums.
func TestOffCPU(t *testing.T) {
	const times, threads = 100, 3
	for _, tt := range []struct {
		name        string
		threshold   time.Duration
		least, most int // samples of a thread
	}{
		{"each", 0, times / 2, 2*times + 100},
		{"sums", time.Hour, 1, 20}, // by stack: there are few
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := offCPUConfig(t, tt.threshold)
			cfg.Command = []string{sleeper(t, times, threads, false)}
			start := time.Now()
			_, err := Run(cfg)
			check(t, err)
			wall := time.Since(start)
			tasks := readBlocked(t, cfg.Output)
			pids := make(map[int32]bool)
			for _, b := range tasks {
				pids[b.pid] = true
				b.bound(t, times, wall)
				if b.comm != "program" {
					t.Errorf("thread %d is called %q", b.tid, b.comm)
				}
				if b.samples < tt.least || b.samples > tt.most {
					t.Errorf("thread %d has %d samples, want %d to %d", b.tid, b.samples, tt.least, tt.most)
				}
			}
			if len(tasks) != threads+1 || len(pids) != 1 || tasks[firstOf(pids)] == nil {
				t.Errorf("%d threads of the processes %v, want %d of one", len(tasks), pids, threads+1)
			}
		})
	}
}

func firstOf(pids map[int32]bool) int32 {
	for pid := range pids {
		return pid
	}
	return 0
}

// TestOffCPUThreshold checks that long times become samples, and the others sums.
func TestOffCPUThreshold(t *testing.T) {
	require.AnyArch(t)
	const times = 50
	cfg := offCPUConfig(t, 500*time.Millisecond)
	ready, release := fifo(t), fifo(t)
	cfg.Command = []string{"sh", "-c", sleeper(t, times, 0, false) + "; echo $$ > " + ready + "; read line < " + release}
	go func() {
		pid, _ := os.ReadFile(ready)
		// A thread that waits for a CPU on its way to sleep is not blocked yet, and has the state S. There is a place where it waits when it is.
		for t.Context().Err() == nil {
			if place, _ := os.ReadFile(fmt.Sprintf("/proc/%s/wchan", bytes.TrimSpace(pid))); len(place) > 0 && string(place) != "0" {
				break
			}
			runtime.Gosched()
		}
		time.Sleep(600 * time.Millisecond) // it is blocked that long at least
		_ = os.WriteFile(release, []byte("\n"), 0)
	}()
	result, err := Run(cfg)
	check(t, err)
	seen := make(map[string]*blockedTask)
	for _, b := range readBlocked(t, cfg.Output) {
		t.Logf("%+v", *b)
		seen[b.comm] = b
	}
	t.Logf("%d samples are lost", result.Lost)
	if b := seen["program"]; b == nil || b.samples > times/2 {
		t.Errorf("the program, which sleeps %d times for a short while: %+v", times, b)
	}
	if b := seen["sh"]; b == nil || b.longest < 600*time.Millisecond {
		t.Errorf("the shell: %+v, want it to be blocked for 600 ms at once", b)
	}
}

// TestOffCPUStillBlocked records threads that are blocked when the recording ends.
func TestOffCPUStillBlocked(t *testing.T) {
	require.AnyArch(t)
	for _, threshold := range []time.Duration{0, time.Hour} {
		cfg := offCPUConfig(t, threshold)
		ready := fifo(t)
		cfg.Command, cfg.Target.System = []string{"sh", "-c", "echo $$ > " + ready + "; exec sleep 1000"}, true
		signals := make(chan os.Signal, 1)
		cfg.Signals = signals
		go func() {
			pid, _ := os.ReadFile(ready)
			for sleeps := fmt.Sprintf("%s (sleep) S", bytes.TrimSpace(pid)); t.Context().Err() == nil; runtime.Gosched() {
				if stat, _ := os.ReadFile(fmt.Sprintf("/proc/%s/stat", bytes.TrimSpace(pid))); strings.HasPrefix(string(stat), sleeps) {
					break
				}
			}
			time.Sleep(200 * time.Millisecond) // it is blocked that long at least
			signals <- syscall.SIGTERM
		}()
		_, err := Run(cfg)
		check(t, err)
		found := false
		for _, b := range readBlocked(t, cfg.Output) {
			found = found || b.comm == "sleep" && b.longest > 100*time.Millisecond
		}
		if !found {
			t.Errorf("threshold %v: nothing of the command, which sleeps", threshold)
		}
	}
}

// TestOffCPUTargets measures the target, and nothing else.
func TestOffCPUTargets(t *testing.T) {
	require.AnyArch(t)
	const times, threads = 30, 2
	for _, tt := range []struct {
		name   string
		change func(c *Config, pid int)
		tasks  int
	}{
		{"a process", func(c *Config, pid int) { c.Target = target.Spec{PIDs: []int{pid}} }, threads + 1},
		{"a process without children", func(c *Config, pid int) { c.Target, c.Inherit = target.Spec{PIDs: []int{pid}}, false }, 1},
		{"a thread and those it starts", func(c *Config, pid int) { c.Target = target.Spec{TIDs: []int{pid}} }, threads + 1},
		{"the system", func(c *Config, _ int) { c.Target.System = true }, threads + 1},
		{"a CPU", func(c *Config, _ int) { c.Target.CPUs = []int{0} }, -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := offCPUConfig(t, time.Hour)
			cmd := exec.CommandContext(t.Context(), sleeper(t, times, threads, true))
			in, err := cmd.StdinPipe()
			check(t, err)
			check(t, cmd.Start())
			tt.change(&cfg, cmd.Process.Pid)
			signals, ended := make(chan os.Signal, 1), make(chan error, 1)
			cfg.Signals = signals
			cfg.Verbose = func(s string) {
				if s != "events are enabled" {
					return
				}
				go func() {
					in.Close()
					ended <- cmd.Wait()
					signals <- syscall.SIGINT
				}()
			}
			start := time.Now()
			_, err = Run(cfg)
			check(t, err)
			check(t, <-ended)
			n := 0
			for _, b := range readBlocked(t, cfg.Output) {
				if int(b.pid) != cmd.Process.Pid {
					if len(cfg.Target.PIDs)+len(cfg.Target.TIDs) > 0 {
						t.Errorf("thread %d of %d (%s) is recorded, too", b.tid, b.pid, b.comm)
					}
					continue
				}
				n++
				if tt.tasks > 0 {
					b.bound(t, times, time.Since(start))
				}
			}
			if tt.tasks >= 0 && n != tt.tasks {
				t.Errorf("%d threads of the process, want %d", n, tt.tasks)
			}
		})
	}
}

// TestOffCPUOfCgroup measures only tasks of a cgroup.
func TestOffCPUOfCgroup(t *testing.T) {
	require.AnyArch(t)
	require.Root(t)
	root := snapshot.CgroupRoot("/proc")
	if v1, err := target.PerfCgroupsAreV1(); err != nil || v1 || root == "" {
		t.Skip("needs cgroup2 with perf events")
	}
	dir := filepath.Join(root, "bperf-offcpu-"+strconv.Itoa(os.Getpid()))
	check(t, os.Mkdir(dir, 0o755))
	t.Cleanup(func() {
		for range 100 {
			if os.Remove(dir) == nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
		t.Error("the cgroup is still there")
	})
	cfg := offCPUConfig(t, 0)
	cfg.Target.System, cfg.Target.Cgroups = true, []string{filepath.Base(dir)}
	cfg.EventCgroups = cfg.Target.Cgroups
	path := sleeper(t, 20, 0, false)
	cfg.Command = []string{"sh", "-c", fmt.Sprintf("%s; echo $$ > %s/cgroup.procs; %s; true", path, dir, path)}
	_, err := Run(cfg)
	check(t, err)
	n := 0
	for _, b := range readBlocked(t, cfg.Output) {
		switch b.comm {
		case "program":
			n++
		case "sh":
		default:
			t.Errorf("%s is recorded, too", b.comm)
		}
	}
	if n != 1 {
		t.Errorf("%d runs of the program, want the one in the cgroup", n)
	}
}

// TestOffCPUSwitchOutput writes the sums to the file in which they belong.
func TestOffCPUSwitchOutput(t *testing.T) {
	require.AnyArch(t)
	cfg := offCPUConfig(t, time.Hour)
	requests, dumped := make(chan os.Signal), make(chan string, 2)
	cfg.Switch = Switch{Requests: requests}
	cfg.Notify = func(s string) {
		if strings.Contains(s, "Dump") {
			dumped <- s
		}
	}
	slept, end := fifo(t), fifo(t)
	cfg.Command = []string{"sh", "-c", sleeper(t, 50, 0, false) + "; echo > " + slept + "; read x < " + end}
	go func() {
		os.ReadFile(slept)
		requests <- syscall.SIGUSR2
		<-dumped
		if f, err := os.OpenFile(end, os.O_WRONLY, 0); err == nil {
			f.Close()
		}
	}()
	_, err := Run(cfg)
	check(t, err)
	files, err := filepath.Glob(cfg.Output + ".*")
	check(t, err)
	if len(files) != 2 {
		t.Fatalf("files %v, want 2", files)
	}
	if len(readBlocked(t, files[0])) == 0 {
		t.Error("the first file has nothing of those that were blocked in its time")
	}
}

func fifo(t *testing.T) string {
	name := filepath.Join(t.TempDir(), "fifo")
	check(t, syscall.Mkfifo(name, 0o600))
	return name
}

// TestPerfReadsOffCPU lets perf print what was recorded.
func TestPerfReadsOffCPU(t *testing.T) {
	perf := require.Perf(t)
	cfg := offCPUConfig(t, 0)
	cfg.Command = []string{sleeper(t, 20, 2, false)}
	result, err := Run(cfg)
	check(t, err)
	cmd := exec.CommandContext(t.Context(), perf, "script", "-i", cfg.Output, "-F", "comm,pid,tid,event,period")
	var stderr bytes.Buffer
	cmd.Stderr, cmd.WaitDelay = &stderr, time.Minute
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("perf script: %v\n%s", err, stderr.Bytes())
	}
	want := make(map[string]int)
	for _, b := range readBlocked(t, cfg.Output) {
		want[fmt.Sprintf("%d/%d", b.pid, b.tid)] = b.samples
	}
	n := 0
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line) // comm, pid/tid, period, event:
		name := fields[0]
		if len(fields) != 4 || name != "program" && name != "bperf-exec" || fields[3] != OffCPUName+":" {
			t.Errorf("perf prints %q", line)
			continue
		}
		want[fields[1]]--
		n++
	}
	for task, left := range want {
		if left != 0 {
			t.Errorf("perf prints %d samples too few of %s", left, task)
		}
	}
	if n != int(result.Samples) {
		t.Errorf("perf prints %d samples of %d", n, result.Samples)
	}
}
