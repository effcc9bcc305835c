package record

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRealtime checks the priority of the thread that reads the rings, in a message that it prints.
func TestRealtime(t *testing.T) {
	for _, priority := range []int{0, 7} {
		cfg := config(t, "page-faults")
		cfg.Command, cfg.Realtime, cfg.MaxSize, cfg.NoBuffering = []string{"sleep", "60"}, priority, 1, true
		seen := false
		cfg.Notify = func(text string) {
			if !strings.Contains(text, "--max-size") {
				return
			}
			seen = true
			attr, err := unix.SchedGetAttr(0, 0)
			check(t, err)
			policy := uint32(unix.SCHED_NORMAL)
			if priority > 0 {
				policy = unix.SCHED_FIFO
			}
			if attr.Policy != policy || attr.Priority != uint32(priority) {
				t.Errorf("-r %d: policy %d, priority %d", priority, attr.Policy, attr.Priority)
			}
		}
		run(t, cfg)
		if !seen {
			t.Errorf("-r %d: no message", priority)
		}
	}
	cfg := config(t, "page-faults")
	cfg.Command, cfg.Realtime = []string{"true"}, 100
	if _, err := Run(cfg); err == nil || !strings.Contains(err.Error(), "real-time priority 100: invalid argument") {
		t.Errorf("-r 100: %v", err)
	}
}
