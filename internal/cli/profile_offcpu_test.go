package cli

import (
	"strings"
	"testing"

	"github.com/bperf/bperf/test/program"
	"github.com/bperf/bperf/test/require"
)

func TestProfileBlockedRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"--by waker":       "only blocked threads have wakers",
		"--wall -e cycles": "--wall samples cpu-clock",
	} {
		got := run(t, bperf(append([]string{"profile"}, strings.Fields(args)...)...))
		if got.status != statusBadCombination || got.stdout != "" || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: status %d, printed %q%q", args, got.status, got.stdout, got.stderr)
		}
	}
}

// TestProfileBlocked profiles a sleeping command with --off-cpu and --wall.
func TestProfileBlocked(t *testing.T) {
	require.AnyArch(t)
	require.Root(t)
	sleep := program.Program{Body: program.Sleep, Times: 20, Exit: 3}.Write(t)
	for _, tt := range []struct {
		args string
		want []string // parts of what is printed
	}{
		{"--off-cpu -e page-faults -c 1", []string{"offcpu-time: ", "page-faults: ", " program  S ", "nanosleep"}},
		{"--wall", []string{"wall-clock: ", " program  S ", "nanosleep"}},
		// The following cases do not depend on the kernel.
		{"--off-cpu", []string{"offcpu-time: ", " program  S ", "nanosleep"}},
		{"--off-cpu --by comm,waker", []string{"offcpu-time: ", "Waker", " program  "}},
		{"--off-cpu --by comm,function", []string{"offcpu-time: ", "nanosleep"}},
		{"--wall --format folded", []string{"program;state S;off-CPU;", "nanosleep"}},
		{"--wall --format html", []string{">blocked</text>", "off-CPU"}},
		{"--off-cpu --format json", []string{`"offcpu-time"`, `"S"`}},
	} {
		if require.IsGuest() && tt.args != "--wall" && !strings.Contains(tt.args, "-e") {
			continue
		}
		args := append([]string{"profile"}, strings.Fields(tt.args)...)
		got := run(t, bperf(append(args, sleep)...))
		if got.status != 3 || !strings.Contains(got.stderr, "Threads were blocked ") {
			t.Errorf("%s: status %d, %q", tt.args, got.status, got.stderr)
		}
		for _, part := range tt.want {
			if !strings.Contains(got.stdout, part) {
				t.Errorf("%s: there is no %q in\n%s", tt.args, part, got.stdout)
			}
		}
	}
}
