package cli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bperf/bperf/test/require"
)

// countLines returns the lines of stat's output that have counts.
func countLines(text string) (lines []string) {
	for line := range strings.Lines(text) {
		if strings.Contains(line, "Performance counter stats") { // the command line has the names, too
			continue
		}
		if strings.Contains(line, "page-faults") || strings.Contains(line, "task-clock") || strings.Contains(line, "duration_time") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// TestStatRecord records counts, and reports them: the counts are those that the session printed.
func TestStatRecord(t *testing.T) {
	require.Root(t)
	for _, args := range []string{
		"stat record -e page-faults,duration_time -o FILE -- true",
		"stat -e page-faults:u record -x; -o FILE true",
		"stat -a -e page-faults,task-clock record -A -o FILE true",
		"stat -ae page-faults record -o FILE -I 10 true",
		"stat record -o FILE -a --per-core -e page-faults,task-clock,duration_time true",
	} {
		file := filepath.Join(t.TempDir(), "counts.data")
		session := run(t, bperf(strings.Fields(strings.ReplaceAll(args, "FILE", file))...))
		if session.status != 0 || session.stdout != "" {
			t.Fatalf("%s: %+v", args, session)
		}
		how := []string{"stat", "report", "-i", file}
		if strings.Contains(args, "-x;") {
			how = append(how, "-x;")
		}
		report := run(t, bperf(how...))
		printed, reported := countLines(session.stderr), countLines(report.stderr)
		if report.status != 0 || len(printed) == 0 || strings.Join(printed, "\n") != strings.Join(reported, "\n") {
			t.Errorf("%s:\n%s\n%s", args, session.stderr, report.stderr)
		}
	}
}

// TestStatRecordPipe records to standard output, keeps a file that is there already, and ends as the command does.
func TestStatRecordPipe(t *testing.T) {
	require.Root(t)
	t.Chdir(t.TempDir())
	for range 2 {
		if got := run(t, bperf("stat", "record", "-e", "page-faults", "sh", "-c", "exit 3")); got.status != 3 || got.stdout != "" {
			t.Fatalf("%+v", got)
		}
	}
	for _, name := range []string{"perf.data", "perf.data.old"} {
		if _, err := os.Stat(name); err != nil {
			t.Error(err)
		}
	}
	pipe := run(t, bperf("stat", "record", "-e", "page-faults", "-o", "-", "true"))
	if pipe.status != 0 || pipe.stderr != "" {
		t.Fatalf("%+v", pipe)
	}
	for _, cmd := range []*exec.Cmd{bperf("stat", "report", "-i", "-"), bperf("script", "-i", "-"), bperf("evlist", "-i", "-")} {
		cmd.Stdin = strings.NewReader(pipe.stdout)
		if got := run(t, cmd); got.status != 0 || !strings.Contains(got.stdout+got.stderr, "page-faults") {
			t.Errorf("%v: %+v", cmd.Args, got)
		}
	}
}

// TestStatRecordRefuses checks options that cannot be recorded: no recording is made.
func TestStatRecordRefuses(t *testing.T) {
	require.NoKernel(t)
	t.Chdir(t.TempDir())
	for args, want := range map[string]string{
		"stat record -r 3 true":                       "Error: -r: ",
		"stat record -b 1":                            "Error: -b: ",
		"stat record -a -e cycles -G x":               "Error: -G and ",
		"stat record -a --for-each-cgroup x":          "Error: -G and ",
		"stat record -n true":                         "Error: -n: ",
		"stat record --append true":                   "Error: --append: ",
		"stat record -x, -j true":                     "Error: -x and -j ",
		"stat record -o nowhere/x -e page-faults tru": "Error: ",
	} {
		got := runHere(t, strings.Fields(args)...)
		if got.status == 0 || !strings.HasPrefix(got.stderr, want) {
			t.Errorf("%s: %+v, want %s", args, got, want)
		}
	}
	if left, _ := filepath.Glob("*"); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// TestPerfReportsRecordedCounts reads recordings of bperf with perf. A file with tracepoints needs their formats.
func TestPerfReportsRecordedCounts(t *testing.T) {
	require.Root(t)
	require.Tracefs(t)
	file := filepath.Join(t.TempDir(), "counts.data")
	if got := run(t, bperf("stat", "record", "-a", "-A", "-e", "page-faults,sched:sched_switch,duration_time", "-o", file, "true")); got.status != 0 {
		t.Fatalf("%+v", got)
	}
	pipe := run(t, bperf("stat", "record", "-e", "page-faults:u", "-o", "-", "true"))
	for _, perf := range []string{require.Perf(t), require.NewestPerf(t)} {
		for want, args := range map[string][]string{"CPU0": {"stat", "report", "-i", file}, "page-faults:u": {"stat", "report", "-i", "-"},
			" duration_time\n": {"script", "-i", file}} {
			cmd := exec.Command(perf, args...)
			cmd.Stdin = bytes.NewReader([]byte(pipe.stdout))
			if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), want) {
				t.Errorf("%s %q: %v\n%s", perf, args, err, out)
			}
		}
	}
}
