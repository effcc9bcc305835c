package sample

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/test/program"
	"github.com/bperf/bperf/test/require"
)

// whileEnabled takes a profile, and runs a function when sampling has started.
func whileEnabled(t *testing.T, cfg Config, do func() error) Result {
	t.Helper()
	signals, done := make(chan os.Signal, 1), make(chan error, 1)
	cfg.Record.Signals, cfg.Record.Delay = signals, time.Millisecond
	cfg.Record.Notify = func(s string) {
		if s == "Events enabled" {
			go func() {
				done <- do()
				signals <- syscall.SIGINT
			}()
		}
	}
	r := take(t, cfg)
	check(t, <-done)
	return r
}

// newCgroup creates a cgroup, and removes it at the end of the test.
func newCgroup(t *testing.T) string {
	t.Helper()
	root, err := target.Spec{System: true, Cgroups: []string{"/"}}.Resolve()
	check(t, err)
	cgroup, err := os.MkdirTemp(root.Cgroups[0].Path, "bperf-sample-")
	check(t, err)
	t.Cleanup(func() {
		for errors.Is(os.Remove(cgroup), syscall.EBUSY) { // until its processes have ended
			runtime.Gosched()
		}
	})
	return cgroup
}

// TestTargets runs two programs, one of which is the target. The faults of the other one are not sampled.
func TestTargets(t *testing.T) {
	require.AnyArch(t)
	require.Root(t)
	const pages = 200
	touch := program.Program{Body: program.Touch, Times: pages, Wait: true}.Write(t)
	cgroup := newCgroup(t)
	for name, aim := range map[string]func(cfg *Config, pid int){
		"-p": func(cfg *Config, pid int) { cfg.Record.Target.PIDs = []int{pid} },
		"-t": func(cfg *Config, pid int) { cfg.Record.Target.TIDs = []int{pid} },
		"-G": func(cfg *Config, pid int) {
			check(t, os.WriteFile(filepath.Join(cgroup, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o600))
			cfg.Record.Target = target.Spec{System: true, Cgroups: []string{filepath.Base(cgroup)}}
			cfg.Record.EventCgroups = cfg.Record.Target.Cgroups
		},
	} {
		t.Run(name, func(t *testing.T) {
			wanted, in := started(t, touch)
			other, alsoIn := started(t, touch)
			cfg := config(t, "page-faults:u")
			aim(&cfg, wanted.Process.Pid)
			r := whileEnabled(t, cfg, func() error { return errors.Join(in.Close(), alsoIn.Close(), wanted.Wait(), other.Wait()) })
			pids := make(map[int32]uint64)
			for _, s := range r.Profile.Samples() {
				pids[r.Profile.Labels()[s.Labels].PID] += s.Count
			}
			if n := pids[int32(wanted.Process.Pid)]; n+r.Totals.NotRun < pages || len(pids) != 1 {
				t.Errorf("samples by process %v, want all of %d", pids, wanted.Process.Pid)
			}
		})
	}
}

// TestCPUs profiles one CPU, and a program that runs on one or the other.
func TestCPUs(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("needs two CPUs")
	}
	taskset, err := exec.LookPath("taskset")
	if err != nil {
		t.Skip("needs taskset")
	}
	const pages = 200
	touch := program.Program{Body: program.Touch, Times: pages}.Write(t)
	for cpu, want := range map[string]bool{"0": true, "1": false} {
		cfg := config(t, "page-faults:u", taskset, "-c", cpu, touch)
		cfg.Record.Target.CPUs, cfg.Keep = []int{0}, cfg.Keep|profile.CPU
		r := take(t, cfg)
		if n := samplesOf(r.Profile, "program"); want && n+r.Totals.NotRun < pages || !want && n > 20 { // before it is moved there
			t.Errorf("on CPU %s there are %d samples of %d faults of CPU 0", cpu, n, pages)
		}
	}
}

// TestNoIdle checks that there are no samples of idle tasks. The kernel itself leaves them out for clocks, our program for other events.
func TestNoIdle(t *testing.T) {
	require.AnyArch(t)
	for _, event := range []string{"cpu-clock", "context-switches"} {
		for _, without := range []bool{false, true} {
			cfg := config(t, event, "sleep", "0.3")
			cfg.Record.Target.System, cfg.Record.NoIdle = true, without
			if cfg.Record.Period = 1; event == "cpu-clock" {
				cfg.Record.Period, cfg.Record.Frequency = 0, 999
			}
			r := take(t, cfg)
			for _, s := range r.Profile.Samples() {
				// The process ID of idle tasks, 0, is also that of exiting threads, which have lost theirs.
				comm := r.Profile.Strings.At(r.Profile.Labels()[s.Labels].Comm)
				if without && strings.HasPrefix(comm, "swapper/") {
					t.Errorf("%d samples of %s in %s", s.Count, comm, event)
				}
			}
			if !without && r.Totals.Idle != 0 {
				t.Errorf("samples of %s are left out: %+v", event, r.Totals)
			}
		}
	}
}
