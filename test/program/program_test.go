package program

import (
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// TestPrograms runs each kind; what they do is counted by the tests that use them.
func TestPrograms(t *testing.T) {
	for name, p := range map[string]Program{
		"spin":    {Body: Spin, Times: 1000, Exit: 0},
		"getppid": {Body: GetPPID, Times: 10, Exit: 1},
		"touch":   {Body: Touch, Times: MaxPages, Exit: 2},
		"sleep":   {Body: Sleep, Times: 5, Exit: 255},
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
	// The parent's part of the child, before exec, has faults of its own: they vary by a few.
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
