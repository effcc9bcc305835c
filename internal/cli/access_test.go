package cli

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/bperf/bperf/test/require"
)

const capPerfmon = 38 // CAP_PERFMON of include/uapi/linux/capability.h

// nobody makes a command run as an unprivileged user who has only these capabilities.
func nobody(t *testing.T, cmd *exec.Cmd, capabilities ...uintptr) *exec.Cmd {
	t.Helper()
	require.Root(t)
	if cmd.Args[0] == "bperf" {
		cmd.Path = forEverybody(t)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Credential:  &syscall.Credential{Uid: 65534, Gid: 65534},
		AmbientCaps: capabilities,
	}
	return cmd
}

// TestStatUnprivileged checks that bperf refuses to count without permission, and prints a remedy.
func TestStatUnprivileged(t *testing.T) {
	require.Paranoid(t, 2)
	got := run(t, nobody(t, bperf("stat", "-a", "-e", "cpu-clock", "true")))
	for _, want := range []string{"Error: count cpu-clock", "on CPU 0: permission denied", "kernel.perf_event_paranoid is", "setcap cap_perfmon=ep"} {
		if got.status != 1 || !strings.Contains(got.stderr, want) {
			t.Errorf("status %d, stderr:\n%s\nwant status 1 and %q", got.status, got.stderr, want)
		}
	}
}

// TestRecordUnprivileged records only user mode of an event there, and fails for an event in the kernel.
func TestRecordUnprivileged(t *testing.T) {
	require.AnyArch(t)
	require.Paranoid(t, 2)
	got := run(t, nobody(t, bperf("record", "-q", "-e", "page-faults", "-c", "1", "-o", "-", "true")))
	if got.status != 0 {
		t.Fatal(got.stderr)
	}
	script := bperf("script", "-F", "event", "-i", "-")
	script.Stdin = strings.NewReader(got.stdout)
	if shown := run(t, script); !strings.Contains(shown.stdout, "page-faults:u:") {
		t.Errorf("%+v", shown)
	}
	got = run(t, nobody(t, bperf("record", "-q", "-e", "context-switches", "-o", "-", "true")))
	want := "permission denied. kernel.perf_event_paranoid is 2: without CAP_PERFMON, only user mode may be counted, not the kernel. "
	if got.status != statusFailed || !strings.Contains(got.stderr, "context-switches for thread ") || !strings.Contains(got.stderr, want) {
		t.Errorf("%+v, want %q", got, want)
	}
}

// TestStatCapPerfmon counts the system with only this capability.
func TestStatCapPerfmon(t *testing.T) {
	require.Paranoid(t, 2)
	got := run(t, nobody(t, bperf("stat", "-a", "-x,", "-e", "cpu-clock,context-switches", "true"), capPerfmon))
	if got.status != 0 || !strings.Contains(got.stderr, ",msec,cpu-clock,") || strings.Contains(got.stderr, "not") {
		t.Errorf("status %d, stderr:\n%s", got.status, got.stderr)
	}
}

// TestStatTooManyFiles may not raise its limit of open files, and expects the number of files that bperf needs.
func TestStatTooManyFiles(t *testing.T) {
	require.Paranoid(t, 2)
	sh := exec.Command("sh", "-c", `ulimit -n 30; exec "$0" "$@"`, forEverybody(t), "stat", "-e", strings.Repeat("page-faults,", 99)+"page-faults", "true")
	sh.Env = bperf().Env
	got := run(t, nobody(t, sh, capPerfmon))
	want := "Error: counting 100 events for 1 thread takes 100 file descriptors, but 30 is the limit: too many open files. Raise it with `ulimit -n 200`"
	if got.status != 1 || !strings.Contains(got.stderr, want) {
		t.Errorf("status %d, stderr:\n%s\nwant status 1 and %q", got.status, got.stderr, want)
	}
}

// TestStatNothingSupported expects the events with the reason, and that the command does not run.
func TestStatNothingSupported(t *testing.T) {
	require.Root(t)
	// No PMU has this cache event: nodes are not written to ahead of time.
	got := run(t, bperf("stat", "-e", "node-prefetch-misses:pp,branch-load-misses:ppp", "echo", "ran"))
	if got.status != 1 || got.stdout != "" || !strings.HasPrefix(got.stderr, "Error: no supported events found:\nnode-prefetch-misses:pp") {
		t.Errorf("status %d, stdout %q, stderr:\n%s", got.status, got.stdout, got.stderr)
	}
}
