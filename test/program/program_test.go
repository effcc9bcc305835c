package program

import (
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// TestPrograms runs each kind of program. The tests that use the programs count their events.
func TestPrograms(t *testing.T) {
	for name, p := range map[string]Program{
		"spin":    {Body: Spin, Times: 1000, Exit: 0},
		"getppid": {Body: GetPPID, Times: 10, Exit: 1},
		"getsid":  {Body: GetSID, Times: 10, Exit: 7},
		"touch":   {Body: Touch, Times: MaxPages, Exit: 2},
		"sleep":   {Body: Sleep, Times: 5, Exit: 255},
		"yield":   {Body: Yield, Times: 5, Exit: 6},

		"wait":      {Body: Spin, Times: 1, Exit: 3, Wait: true},
		"processes": {Body: GetPPID, Times: 1, Exit: 4, Tasks: 5},
		"threads":   {Body: GetPPID, Times: 1, Exit: 5, Tasks: 5, Threads: true},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(p.Write(t))
			err := cmd.Run()
			if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != int(p.Exit) {
				t.Errorf("got %v, want exit status %d", err, p.Exit)
			}
		})
	}
}

func TestTouchFaultsForEachPage(t *testing.T) {
	faults := func(times uint64) int64 {
		cmd := exec.Command(Program{Body: Touch, Times: times}.Write(t))
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		return cmd.ProcessState.SysUsage().(*syscall.Rusage).Minflt
	}
	// Between fork and exec the child causes more faults, whose number varies by a few.
	if got := faults(MaxPages) - faults(1); got < MaxPages-100 {
		t.Errorf("%d pages make %d more faults than 1 page", MaxPages, got)
	}
}

func TestSleepBlocks(t *testing.T) {
	const times = 5
	start := time.Now()
	cmd := exec.Command(Program{Body: Sleep, Times: times}.Write(t))
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if got := time.Since(start); got < times*time.Millisecond {
		t.Errorf("%d sleeps took %s", times, got)
	}
	if got := cmd.ProcessState.SysUsage().(*syscall.Rusage).Nvcsw; got < times {
		t.Errorf("%d sleeps made %d voluntary context switches", times, got)
	}
}

func TestTasksDoTheSame(t *testing.T) {
	const times, tasks = 5, 20
	for name, threads := range map[string]bool{"processes": false, "threads": true} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(Program{Body: Sleep, Times: times, Tasks: tasks, Threads: threads}.Write(t))
			if err := cmd.Run(); err != nil {
				t.Fatal(err)
			}
			// Includes children that the program has waited for.
			if got := cmd.ProcessState.SysUsage().(*syscall.Rusage).Nvcsw; got < times*(1+tasks) {
				t.Errorf("%d tasks that sleep %d times made %d voluntary context switches", 1+tasks, times, got)
			}
		})
	}
}

func TestWaitWaitsForInput(t *testing.T) {
	cmd := exec.Command(Program{Body: Spin, Times: 1, Wait: true}.Write(t))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		t.Fatalf("it ended (%v) before it had input", err)
	case <-time.After(20 * time.Millisecond):
	}
	if _, err := in.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
