package main

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestExecute runs a command that ends, one that does not, and one that leaves a process behind which holds its output.
func TestExecute(t *testing.T) {
	for _, tt := range []struct {
		name, script, want, err string
		timeout                 time.Duration
	}{
		{"ends", "echo 1; echo 2 >&2", "1\n2\n", "", time.Hour},
		{"fails", "exit 3", "", "exit status 3", time.Hour},
		{"hangs", "sleep 1000; echo 2", "", "not ended after 100ms", 100 * time.Millisecond},
		{"leaves a process behind", "echo 1; setsid sleep 20 & exit 0", "1\n", "exec: WaitDelay expired before I/O complete", time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command("sh", "-c", tt.script)
			cmd.WaitDelay = 5 * time.Second
			var out strings.Builder
			got := ""
			if err := execute(context.Background(), &out, cmd, tt.timeout); err != nil {
				got = err.Error()
			}
			if out.String() != tt.want || got != tt.err {
				t.Errorf("%q and error %q, want %q and %q", out.String(), got, tt.want, tt.err)
			}
		})
	}
}

// TestExecuteWithRaces runs a program that reports a race like the race detector and exits with status 0.
func TestExecuteWithRaces(t *testing.T) {
	var out strings.Builder
	cmd := exec.Command("sh", "-c", `echo "WARNING: DATA RACE" >"${GORACE#*log_path=}.1"`)
	err := executeWithRaces(context.Background(), &out, cmd)
	if err == nil || err.Error() != "data races in 1 processes" || out.String() != "WARNING: DATA RACE\n" {
		t.Errorf("%q and error %v", out.String(), err)
	}
	if err := executeWithRaces(context.Background(), &out, exec.Command("true")); err != nil {
		t.Errorf("without a race: %v", err)
	}
}
