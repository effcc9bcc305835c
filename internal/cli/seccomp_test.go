package cli

import (
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/test/require"
)

// refuse makes the given system calls fail with EPERM from now on, as a container's seccomp profile does.
func refuse(calls ...uint32) {
	const number = 0 // offset in struct seccomp_data (include/uapi/linux/seccomp.h)
	code := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: number}}
	for _, call := range calls {
		code = append(code,
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jf: 1},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)})
	}
	code = append(code, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
	program := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	if _, _, err := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program))); err != 0 {
		panic(fmt.Errorf("set a seccomp filter: %w", err))
	}
}

// TestRefusedBySeccomp runs as root with all capabilities under a seccomp filter. The error must name seccomp, and must not advise to
// become root.
func TestRefusedBySeccomp(t *testing.T) {
	require.AnyArch(t)
	require.BPFFS(t)
	for _, args := range [][]string{
		{"stat", "-e", "task-clock", "true"},
		{"stat", "-a", "-e", "task-clock", "true"},
		{"stat", "--bpf-counters", "-a", "-e", "task-clock", "true"},
		{"stat", "-b", "1", "-e", "task-clock", "true"},
		{"record", "-o", "/dev/null", "-e", "cpu-clock", "true"},
		{"record", "-a", "-o", "/dev/null", "-e", "cpu-clock", "true"},
		{"profile", "-e", "cpu-clock", "true"},
		{"profile", "-a", "-e", "cpu-clock", "true"},
		{"profile", "--off-cpu", "true"},
		{"top", "-n", "1"},
		{"top", "--by", "process", "-n", "1"},
		{"prog", "list"},
		{"prog", "watch"},
		{"doctor"},
	} {
		cmd := bperf(args...)
		cmd.Env = append(cmd.Env, "BPERF_TEST_SECCOMP=1")
		got := run(t, cmd)
		text := got.stdout + got.stderr
		if got.status == 0 || !strings.Contains(text, "seccomp") || strings.Contains(text, "as root") || strings.Contains(text, "perf_event_paranoid=") {
			t.Errorf("%q: %+v", args, got)
		}
	}
}
