package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bperf/bperf/test/require"
)

func TestEvlist(t *testing.T) {
	require.NoKernel(t)
	group, pipe := filepath.Join(recordings, "group.data"), filepath.Join(recordings, "pipetracepoint.data")
	for _, tt := range []struct {
		args   []string
		stdin  string
		out    string
		errors string
		status int
	}{
		{args: []string{"-i", group, "-f", "-g"}, out: "{cpu-clock,page-faults}\ntask-clock\n"},
		{args: []string{"-F", "-i", pipe}, out: "sched:sched_switch: sample_period=1\ncpu-clock: sample_freq=4000\n"},
		{args: []string{"--trace-fields", "-F"}, stdin: pipe, out: "next_pid,next_prio\ncpu-clock: sample_freq=4000, (not a tracepoint)\n"},
		{args: []string{"-vv", "-i", group},
			out: "page-faults: type: 1 (PERF_TYPE_SOFTWARE), size: 128, config: 0x2 (PERF_COUNT_SW_PAGE_FAULTS), sample_type: "},
		{args: []string{"-v", "-g", "-i", group}, errors: "-g cannot be combined with -v or -F", status: 129},
		{args: []string{"-i", "/nonexistent"}, errors: "make a recording with bperf record, or name one with -i", status: statusFailed},
		{args: []string{"-i", "/dev/null"}, errors: "0 bytes are no recording of perf", status: statusFailed},
	} {
		cmd := bperf(append([]string{"evlist"}, tt.args...)...)
		if tt.stdin != "" {
			file, err := os.Open(tt.stdin)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			cmd.Stdin = struct{ *os.File }{file} // makes exec copy it through a pipe
		}
		got := run(t, cmd)
		quiet := tt.errors != "" || got.stderr == ""
		if got.status != tt.status || !strings.Contains(got.stdout, tt.out) || !strings.Contains(got.stderr, tt.errors) || !quiet {
			t.Errorf("%v: %+v", tt.args, got)
		}
	}
}

// TestEvlistBesidePerf compares the output for recordings of files. It ignores tips, whose words differ.
func TestEvlistBesidePerf(t *testing.T) {
	perf := exec.Command(require.NewestPerf(t))
	for _, name := range []string{"bpf", "buildid", "callchain", "dwarf", "group", "regs", "tracepoint", "zstd"} {
		for _, flags := range [][]string{nil, {"-F"}, {"-v"}, {"-g"}, {"--trace-fields"}, {"-F", "--trace-fields"}, {"-v", "--trace-fields"}} {
			file, err := filepath.Abs(filepath.Join(recordings, name+".data"))
			if err != nil {
				t.Fatal(err)
			}
			args := append([]string{"evlist", "-f", "-i", file}, flags...)
			want, got := withoutTips(output(t, perf, args...)), withoutTips(output(t, bperf(), args...))
			if got != want || want == "" {
				t.Errorf("%v: printed\n%swant\n%s", args, got, want)
			}
		}
	}
}

func withoutTips(text []byte) string {
	var kept strings.Builder
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "# Tip: ") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}
