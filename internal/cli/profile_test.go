package cli

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bperf/bperf/internal/report"
	"github.com/bperf/bperf/test/program"
	"github.com/bperf/bperf/test/require"
)

// TestProfileRefuses checks invalid options and combinations. bperf attaches nothing for them.
func TestProfileRefuses(t *testing.T) {
	require.NoKernel(t)
	for args, want := range map[string]struct {
		status int
		err    string
	}{
		"--by colour":                        {129, `--by: unknown key "colour"; valid keys are stack, `},
		"--format xml":                       {129, "--format xml: the formats are table, tree, json, "},
		"-n 0":                               {22, "--top 0: the number of rows must be at least 1"},
		"-F 99 -c 10":                        {22, "-F sets a frequency and -c a period"},
		"--user --kernel":                    {22, "leave nothing to measure"},
		"-I 1":                               {22, "-I supports the formats json and pprof, not table"},
		"-I 1 --format pprof -o -":           {22, "name a directory with -o"},
		"-I 0.01 --format json":              {22, "the interval must be at least 0.1 s"},
		"--diff x --format folded":           {22, "--diff supports the formats"},
		"--range 0x20-0x10":                  {129, "--range: the range 0x20-0x10 ends before it begins"},
		"--range 0x10-0x20 --range no.such":  {22, "--range no.such is not a function of the kernel: it cannot be combined"},
		"--range no.such --by cpu":           {22, "--by needs stack or ip"},
		"-b [":                               {129, ""},
		"-e cpu-clock --filter colour==1 -a": {129, `there is no field "colour"`},
		"-e duration_time":                   {129, "cannot be sampled"},
		"-e cpu-clock/call-graph=fp/":        {129, "only bperf record takes terms"},
		"--diff /nonexistent":                {1, "/nonexistent"},
	} {
		got := runHere(t, append([]string{"profile"}, strings.Fields(args)...)...)
		if got.status != want.status || got.stdout != "" || !strings.Contains(got.stderr, want.err) {
			t.Errorf("%s: status %d, printed %q%q", args, got.status, got.stdout, got.stderr)
		}
	}
}

// TestProfileByAccess profiles by keys from the kernel's own samples, in each format.
func TestProfileByAccess(t *testing.T) {
	require.Root(t)
	touch := program.Program{Body: program.Touch, Times: 20, Exit: 3}.Write(t)
	profile := func(format string) result {
		return run(t, bperf("profile", "-q", "-e", "minor-faults:u", "-c", "1", "--by", "comm,phys_addr,data_src,weight", "--format", format, touch))
	}
	if got := profile("table"); got.status == 1 && strings.Contains(got.stderr, "needs Linux 6.2 or later") {
		if got.stdout != "" || strings.Count(got.stderr, "\n") != 1 {
			t.Errorf("printed %q%q", got.stdout, got.stderr)
		}
		t.Skip(got.stderr) // internal/sample checks which kernels these are
	}
	const physical, source = "0x", "|OP N/A|LVL N/A|SNP N/A|TLB N/A|LCK N/A|BLK N/A"
	for format, want := range map[string][]string{
		"table":      {"Physical Address", "Data Source", "Weight", physical, source},
		"tree":       {"Physical Address", "Data Source", "Weight", physical, source},
		"csv":        {",phys_addr,data_src,weight\n", physical, "," + source + ",0\n"},
		"folded":     {"program;phys_addr " + physical, ";data_src " + source + ";weight 0"},
		"flamegraph": {"phys_addr " + physical, "data_src " + source, "weight 0"},
		"html":       {"phys_addr " + physical, "data_src " + source, "weight 0"},
		"json":       {`"phys_addr"`, `"data_src"`, `"weight"`, `"` + physical, `"` + source + `"`},
		"pprof":      {"phys_addr", "data_src", "weight", physical, source},
	} {
		if require.IsGuest() && format != "table" { // the others do not depend on the kernel
			continue
		}
		got := profile(format)
		text := got.stdout
		if format == "pprof" {
			unzipped, err := gzip.NewReader(strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			all, err := io.ReadAll(unzipped)
			if err != nil {
				t.Fatal(err)
			}
			text = string(all)
		}
		if got.status != 3 || got.stderr != "" {
			t.Errorf("%s: status %d, %q", format, got.status, got.stderr)
		}
		for _, part := range want {
			if !strings.Contains(text, part) {
				t.Errorf("%s: there is no %q in\n%s", format, part, text)
			}
		}
	}
}

// TestProfile profiles a command whose faults are known.
func TestProfile(t *testing.T) {
	require.Root(t)
	touch := program.Program{Body: program.Touch, Times: 200, Exit: 3}.Write(t)
	got := run(t, bperf("profile", "-e", "page-faults:u", "-c", "1", "--by", "comm", touch))
	if got.status != 3 || !strings.HasPrefix(got.stdout, "page-faults:u: 201 samples, 201 events\n") ||
		!strings.Contains(got.stdout, "\n100.00%  ████████████████████        201  program\n") {
		t.Errorf("status %d, printed %q%q", got.status, got.stdout, got.stderr)
	}
	got = run(t, bperf("profile", "-q", "-e", "page-faults:u", "-c", "1", "--by", "pid,state", "--format", "json", touch))
	if got.status != 3 || got.stderr != "" || !json.Valid([]byte(got.stdout)) {
		t.Errorf("status %d, printed %q%q", got.status, got.stdout, got.stderr)
	}
	if require.IsGuest() { // formats do not depend on the kernel
		return
	}
	for format, want := range map[string]string{"tree": "# Samples: 201  of event 'page-faults:u'", "folded": "program;", "flamegraph": "<svg", "html": "<!DOCTYPE html>",
		"speedscope": "speedscope", "firefox": "program", "csv": "overhead:page-faults:u"} {
		got := run(t, bperf("profile", "-q", "-e", "page-faults:u", "-c", "1", "--format", format, touch))
		if got.status != 3 || !strings.Contains(got.stdout, want) {
			t.Errorf("%s: status %d, printed %.300q%q", format, got.status, got.stdout, got.stderr)
		}
	}
}

// TestProfileOnTerminal wants lines that fit a terminal: the data source alone has 48 columns.
func TestProfileOnTerminal(t *testing.T) {
	require.NoKernel(t) // how rows are cut; --by data_src needs Linux 6.2
	require.Root(t)
	term := newTerminal(t, 80, 24)
	touch := program.Program{Body: program.Touch, Times: 200}.Write(t)
	cmd := bperf("profile", "-q", "-e", "minor-faults:u", "-c", "1", "--by", "data_src", touch)
	term.start(t, cmd)
	term.await(t, `  \|OP N/A\|LVL N/A.*….*\|BLK N/A\r?\n`)
	cmd.Wait() // with the status of the program
}

// TestProfileIntervals writes a line, or a file, for each interval.
func TestProfileIntervals(t *testing.T) {
	require.AnyArch(t)
	require.Root(t)
	cmd := bperf("profile", "-q", "-e", "cpu-clock", "-F", "99", "-a", "-I", "0.1", "--format", "json", "--by", "cpu")
	stdout, _, stderr := startReading(t, cmd)
	for n := 1; ; n++ {
		line, err := stdout.ReadString('\n')
		if err != nil && n > 2 {
			break
		}
		if err != nil {
			t.Fatalf("line %d: %.300q, %v, %q", n, line, err, stderr)
		}
		var p report.JSON
		if unwrap(t, line, profileSchema, &p); len(p.Tables) != 1 || p.Tables[0].Events[0].Name != "cpu-clock" {
			t.Errorf("line %d is %s", n, line)
		}
		if n == 2 {
			cmd.Process.Signal(syscall.SIGINT)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v, printed %q", err, stderr)
	}
	if require.IsGuest() { // the rest does not depend on the kernel
		return
	}
	dir := filepath.Join(t.TempDir(), "profiles")
	cmd = bperf("profile", "-e", "cpu-clock", "-F", "99", "-a", "-I", "0.1", "--format", "pprof", "-o", dir)
	stdout, _, stderr = startReading(t, cmd)
	eventually(t, "there are two files", func() bool {
		files, _ := os.ReadDir(dir) // the first file creates the directory
		return len(files) >= 2
	})
	cmd.Process.Signal(syscall.SIGINT)
	rest, _ := io.ReadAll(stdout)
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v, printed %q%q", err, rest, stderr)
	}
}
