package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// recordings are small ones, that perf has made.
const recordings = "../perfdata/testdata"

// TestReportFormats makes every format of recordings of several kinds.
func TestReportFormats(t *testing.T) {
	begin := map[string]string{
		"table": "# To display the perf.data header info", "json": "{\n", "csv": "overhead", "folded": "", "pprof": "\x1f\x8b",
		"flamegraph": "<?xml", "html": "<!DOCTYPE html>", "speedscope": `{"$schema"`, "firefox": `{"meta"`,
	}
	for _, name := range []string{"callchain", "group", "pipe", "zstd", "tracepoint", "bpf"} {
		input := filepath.Join(recordings, name+".data")
		event := firstEvent(t, input)
		for _, format := range formatNames() {
			got := run(t, bperf("report", "-i", input, "--format", format, "-e", event))
			if got.status != 0 || !strings.HasPrefix(got.stdout, begin[format]) || got.stdout == "" {
				t.Errorf("%s of %s: status %d\n%s%.200s", format, name, got.status, got.stderr, got.stdout)
				continue
			}
			file := filepath.Join(t.TempDir(), "out")
			if to := run(t, bperf("report", "-i", input, "--format", format, "-e", event, "-o", file)); to.status != 0 || to.stdout != "" {
				t.Errorf("%s of %s to a file: %+v", format, name, to)
			}
			if written, err := os.ReadFile(file); err != nil || string(written) != got.stdout {
				t.Errorf("%s of %s: the file is not what is printed (%v)", format, name, err)
			}
		}
	}
}

// firstEvent is the name of the first event with samples, as the table has it.
func firstEvent(t *testing.T, input string) string {
	t.Helper()
	got := run(t, bperf("report", "-i", input, "--stats"))
	m := regexp.MustCompile(`(?m)^(\S+) stats:\n +SAMPLE events: +[1-9]`).FindStringSubmatch(got.stdout)
	if m == nil {
		t.Fatalf("%s: there is no event with samples in\n%s%s", input, got.stdout, got.stderr)
	}
	return m[1]
}

func TestReportPipe(t *testing.T) {
	input := filepath.Join(recordings, "pipe.data")
	file, err := os.Open(input)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cmd := bperf("report", "-i", "-")
	cmd.Stdin = file
	piped, read := run(t, cmd), run(t, bperf("report", "-i", input))
	if diff := cmp.Diff(read, piped, cmp.AllowUnexported(result{})); diff != "" || piped.status != 0 {
		t.Errorf("from a pipe (-file +pipe):\n%s", diff)
	}
}

// TestReportRefuses checks what cannot be, and that nothing is written then.
func TestReportRefuses(t *testing.T) {
	input := filepath.Join(recordings, "callchain.data")
	tests := []struct {
		args   []string
		status int
		stderr string
	}{
		{[]string{"--format", "svg"}, statusBadOption, "there are table, json"},
		{[]string{"-s", "symbl"}, statusBadOption, `did you mean "symbol"?`},
		{[]string{"-F", "overhed"}, statusBadOption, `did you mean "overhead"?`},
		{[]string{"-g", "graf"}, statusBadOption, `"graf" is no mode`},
		{[]string{"--percentage", "half"}, statusBadOption, "relative and absolute"},
		{[]string{"--parent", "("}, statusBadOption, "--parent"},
		{[]string{"--time", "soon"}, statusBadOption, "no time in seconds"},
		{[]string{"--cpu", "x"}, statusBadOption, "--cpu x"},
		{[]string{"--format", "pprof", "--diff", input}, statusBadCombination, "not for pprof"},
		{[]string{"--children", "--no-children"}, 1, "children"},
		{[]string{"--format", "folded", "-e", "nothing"}, 1, "there are no samples of it"},
		{[]string{"-i", "nowhere.data"}, 1, "make a recording"},
		{[]string{"-i", "report_test.go"}, 1, "report_test.go"},
	}
	for _, tt := range tests {
		got := run(t, bperf(append([]string{"report", "-i", input}, tt.args...)...))
		if got.status != tt.status || !strings.Contains(got.stderr, tt.stderr) || got.stdout != "" {
			t.Errorf("%q: %+v\nwant status %d and %q", tt.args, got, tt.status, tt.stderr)
		}
	}
}

func TestDiff(t *testing.T) {
	input := filepath.Join(recordings, "callchain.data")
	got := run(t, bperf("diff", input, input))
	if got.status != 0 || !strings.Contains(got.stdout, "# Baseline  Delta Abs  Shared Object") {
		t.Fatalf("diff: %+v", got)
	}
	for _, line := range strings.Split(got.stdout, "\n") {
		if line != "" && line[0] != '#' && !strings.Contains(line, "+0.00%") {
			t.Errorf("a recording differs from itself: %s", line)
		}
	}
	if got := run(t, bperf("diff", "nowhere", input)); got.status != 1 || !strings.Contains(got.stderr, "nowhere") {
		t.Errorf("diff with what is not there: %+v", got)
	}
}
