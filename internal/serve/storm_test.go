package serve

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bperf/bperf/internal/serve/budget"
	"github.com/bperf/bperf/internal/serve/settings"
	"github.com/bperf/bperf/test/program"
	"github.com/bperf/bperf/test/require"
)

// stormy is a daemon that measures its own cost, in periods that the test ends.
type stormy struct {
	*Daemon
	t     *testing.T
	log   buffer
	ticks chan time.Time
}

// stormPeriod is long enough for the CPU time of a period to be that of what runs all the time.
const stormPeriod = 200 * time.Millisecond

func startStormy(t *testing.T, text string) *stormy {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "bperf.yml")
	check(t, os.WriteFile(path, []byte(text), 0o600))
	s := &stormy{t: t, ticks: make(chan time.Time)}
	var err error
	s.Daemon, err = New(Config{Path: path, Log: &s.log, Change: func(set *settings.Settings) {
		set.Listen = []string{"unix:" + filepath.Join(dir, "socket")}
	}})
	check(t, err)
	s.budget.tick = s.ticks
	ended := make(chan error, 1)
	go func() { ended <- s.Run(t.Context(), nil) }()
	t.Cleanup(func() {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s
}

// period ends a period, and returns what the daemon measured in the last one.
func (s *stormy) period() *budget.Status {
	s.ticks <- <-time.After(stormPeriod)
	return s.budget.status.Load()
}

// until ends periods until ok has returned true for several in a row.
func (s *stormy) until(what string, periods int, ok func(*budget.Status) bool) {
	s.t.Helper()
	row := 0
	var last *budget.Status
	for deadline := time.Now().Add(10 * time.Minute); row < periods; {
		if last = s.period(); ok(last) {
			row++
		} else {
			row = 0
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("not in ten minutes: %s: %+v\n%s", what, last, s.log.String())
		}
	}
	s.t.Logf("%s: level %d, the process takes %.2f %%, its BPF programs %.2f %%", what, last.Level, 100*last.Process.Of, 100*last.Programs.Of)
}

// idleProcesses starts this many processes, which wait until the returned function is called.
func idleProcesses(t *testing.T, n int) (end func()) {
	t.Helper()
	in, release, err := os.Pipe()
	check(t, err)
	out, err := os.CreateTemp(t.TempDir(), "")
	check(t, err)
	wait := program.Program{Body: program.GetPPID, Times: 1, Wait: true}.Write(t)
	cmd := exec.Command("sh", "-c", fmt.Sprintf(`i=0; while [ $i -lt %d ]; do "$0" <&3 & i=$((i+1)); done; echo started; wait`, n), wait)
	cmd.ExtraFiles, cmd.Stdout = []*os.File{in}, out
	check(t, cmd.Start())
	check(t, in.Close())
	end = func() {
		release.Close()
		cmd.Wait()
	}
	t.Cleanup(end)
	for deadline := time.Now().Add(10 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		text, err := os.ReadFile(out.Name())
		check(t, err)
		if len(text) > 0 {
			return end
		}
		if time.Now().After(deadline) {
			t.Fatal("the processes did not start in ten minutes")
		}
	}
}

// TestStorm has a storm of context switches beside many processes. The daemon gives up one thing after the other until it keeps its budget,
// says so, and counts containers again after the storm.
func TestStorm(t *testing.T) {
	require.Root(t)
	processes := 200
	if require.Long() {
		processes = 5000
	}
	s := startStormy(t, "events: ['page-faults,cpu-migrations']\nprofile: {every: 1s}\nbudget: {cpu: 2%, memory: 0}\nbpf_statistics: {on: 100ms, every: 1s}\n")
	for s.budget.status.Load() == nil || s.Daemon.current.Load() == nil { // until it counts
		time.Sleep(time.Millisecond)
	}
	endProcesses := idleProcesses(t, processes)
	// More tasks than CPUs that let each other run: nothing but context switches.
	storm := exec.Command(program.Program{Body: program.Yield, Times: math.MaxInt64, Tasks: uint16(4 * runtime.NumCPU())}.Write(t))
	storm.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	check(t, storm.Start())
	endStorm := func() {
		syscall.Kill(-storm.Process.Pid, syscall.SIGKILL) // fails when they have ended
		storm.Wait()
	}
	t.Cleanup(endStorm)
	s.until("the storm costs more than the budget", 1, func(now *budget.Status) bool { return now.Level > 0 && now.CPU().Of > now.Limits.CPU })
	const tolerance = 1.2
	s.until("the budget holds", 5, func(now *budget.Status) bool {
		return now.Level > 0 && now.Process.Known && now.Programs.Known && now.CPU().Of <= tolerance*now.Limits.CPU
	})
	w := drawn(s.Daemon)
	if !strings.Contains(w, `<strong class="bad">`) || !strings.Contains(w, " % of the CPU time (the budget is 2 %)") {
		t.Errorf("the page does not say what was given up:\n%s", w)
	}
	endStorm()
	endProcesses()
	// The rest depends on what else the machine does.
	s.until("containers are counted again", 1, func(now *budget.Status) bool {
		return now.Plan.Switches && now.Programs.Known && now.CPU().Of <= now.Limits.CPU
	})
}
