package cli

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/require"
)

// recordings is a directory of small recordings that perf made.
const recordings = "../../perfdata/testdata"

// TestReportFormats writes every format, to standard output and to a file.
func TestReportFormats(t *testing.T) {
	require.NoKernel(t)
	begin := map[string]string{
		"table": "# To display the perf.data header info", "json": "{\n", "csv": "overhead", "folded": "", "pprof": "\x1f\x8b",
		"flamegraph": "<?xml", "html": "<!DOCTYPE html>", "speedscope": `{"$schema"`, "firefox": `{"meta"`,
	}
	input := filepath.Join(recordings, "callchain.data")
	for _, format := range formatNames(reportFormats) {
		got := run(t, bperf("report", "-i", input, "--format", format))
		if got.status != 0 || !strings.HasPrefix(got.stdout, begin[format]) || got.stdout == "" {
			t.Errorf("%s: status %d\n%s%.200s", format, got.status, got.stderr, got.stdout)
			continue
		}
		file := filepath.Join(t.TempDir(), "out")
		if to := run(t, bperf("report", "-i", input, "--format", format, "-o", file)); to.status != 0 || to.stdout != "" {
			t.Errorf("%s to a file: %+v", format, to)
		}
		if written, err := os.ReadFile(file); err != nil || withoutStamp(string(written)) != withoutStamp(got.stdout) {
			t.Errorf("%s: the file is not what is printed (%v)", format, err)
		}
	}
	testOutput(t, "report", "-i", input)
}

// TestReportRecordings checks that the table has as many samples of the first event as the recording.
func TestReportRecordings(t *testing.T) {
	require.NoKernel(t)
	for _, name := range []string{"callchain", "group", "zstd", "tracepoint", "bpf"} {
		input := filepath.Join(recordings, name+".data")
		event, samples := firstEvent(t, input)
		if got := reported(t, input, event); got != samples {
			t.Errorf("%s: %d samples of %s, want %d", name, got, event, samples)
		}
	}
}

// TestReportParts checks that the parts of a recording add up to all of it.
func TestReportParts(t *testing.T) {
	require.NoKernel(t)
	input := filepath.Join(recordings, "callchain.data")
	event, samples := firstEvent(t, input)
	first, last := reported(t, input, event, "--time", "0%-50%"), reported(t, input, event, "--time", "50%/2")
	if first == 0 || last == 0 || first+last != samples {
		t.Errorf("%d and %d samples in the halves, %d in all", first, last, samples)
	}
}

// TestReportHeads checks what -p and --time add to the lines before a table.
func TestReportHeads(t *testing.T) {
	require.NoKernel(t)
	for args, want := range map[string]string{
		"-p x -s comm":          "Children Self Command Parent symbol",
		"-p x -s parent,comm":   "Children Self Parent symbol Command",
		"-p x -F overhead,comm": "Overhead Command Parent symbol",
		"-p x --no-children":    "Overhead Command Shared Object Symbol Parent symbol",
		"--time 0%-50%,60%-70%": "' (time slices: 0%-50%,60%-70%)",
		"--time 50%/1":          "' (time slices: 50%/1)",
	} {
		got := runHere(t, append(strings.Fields("report -g none -i "+filepath.Join(recordings, "callchain.data")), strings.Fields(args)...)...)
		if got.status != 0 || !strings.Contains(strings.Join(strings.Fields(got.stdout), " "), want) {
			t.Errorf("%s: status %d, no %q in\n%s%s", args, got.status, want, got.stdout, got.stderr)
		}
	}
}

// reported returns the number of samples of the first event in a table.
func reported(t *testing.T, input, event string, args ...string) int {
	t.Helper()
	got := run(t, bperf(append([]string{"report", "-i", input, "--no-children", "-F", "sample,sym", "-g", "none", "-t", "|"}, args...)...))
	at := strings.Index(got.stdout, "# Samples: ")
	if got.status != 0 || at < 0 {
		t.Fatalf("%v: %+v", args, got)
	}
	first, _, _ := strings.Cut(got.stdout[at:], "\n\n")
	if !strings.Contains(first, event) {
		t.Errorf("%v: there is no %s in\n%s", args, event, first)
	}
	sum := 0
	for _, m := range regexp.MustCompile(`(?m)^ *(\d+)`).FindAllStringSubmatch(first, -1) {
		n, _ := strconv.Atoi(m[1])
		sum += n
	}
	return sum
}

// firstEvent returns the name of the first event with samples, and their number.
func firstEvent(t *testing.T, input string) (string, int) {
	t.Helper()
	got := run(t, bperf("report", "-i", input, "--stats"))
	m := regexp.MustCompile(`(?m)^(\S+) stats:\n +SAMPLE events: +([1-9]\d*)`).FindStringSubmatch(got.stdout)
	if m == nil {
		t.Fatalf("%s: there is no event with samples in\n%s%s", input, got.stdout, got.stderr)
	}
	n, err := strconv.Atoi(m[2])
	if err != nil {
		t.Fatal(err)
	}
	return m[1], n
}

// TestReportQuiet expects the rows alone.
func TestReportQuiet(t *testing.T) {
	require.NoKernel(t)
	input := filepath.Join(recordings, "callchain.data")
	whole, quiet := runHere(t, "report", "-i", input), runHere(t, "report", "-q", "--header", "-i", input)
	var rows []string
	for line := range strings.Lines(whole.stdout) {
		if !strings.HasPrefix(line, "#") {
			rows = append(rows, line)
		}
	}
	if got := runHere(t, "report", "-q", "--diff", input, "-i", input); got.status != 0 || strings.Contains(got.stdout, "#") || !strings.Contains(got.stdout, "+0.00%") {
		t.Errorf("with -q, a comparison is %+v", got)
	}
	if got := runHere(t, "report", "-q", "-i", "nowhere"); got.status != statusFailed || !strings.Contains(got.stderr, "nowhere") {
		t.Errorf("with -q, an error is %+v", got)
	}
	if got := runHere(t, "report", "-q", "--header-only", "-i", input); got != quiet {
		t.Errorf("with -q, --header-only prints %+v", got)
	}
	if diff := cmp.Diff(strings.Join(rows, ""), quiet.stdout); diff != "" || quiet.stderr != "" || len(rows) < 10 {
		t.Errorf("%d rows, %q (-want +got):\n%s", len(rows), quiet.stderr, diff)
	}
}

func TestReportMaxStack(t *testing.T) {
	input := filepath.Join(recordings, "callchain.data")
	longest := func(args ...string) int {
		frames := 0
		for line := range strings.Lines(runHere(t, append([]string{"report", "--format", "folded", "--no-inline", "-i", input}, args...)...).stdout) {
			frames = max(frames, strings.Count(line, ";")) // behind the name of the thread
		}
		return frames
	}
	if whole, cut := longest(), longest("--max-stack", "3"); whole < 5 || cut != 3 {
		t.Errorf("the longest callchain has %d frames, and %d with --max-stack 3", whole, cut)
	}
}

// TestReportArgument names the recording, or a part of the names of functions.
func TestReportArgument(t *testing.T) {
	require.NoKernel(t)
	input := filepath.Join(recordings, "callchain.data")
	event, all := firstEvent(t, input)
	if named, given := run(t, bperf("report", input)), run(t, bperf("report", "-i", input)); named != given || named.status != 0 {
		t.Errorf("%+v, with -i %+v", named, given)
	}
	if n := reported(t, input, event, "--symbol-filter", ""); n != all {
		t.Errorf("an empty text selects %d of %d samples", n, all)
	}
	if n := reported(t, input, event, "no function has this name"); n != 0 {
		t.Errorf("a text that is in no name selects %d samples", n)
	}
	if n := reported(t, input, event, "report_test.go"); n != 0 {
		t.Errorf("the name of a file that is no recording selects %d samples", n)
	}
	if got := runHere(t, "report", "no-such.data"); got.status != statusFailed || !strings.Contains(got.stderr, "no-such.data: no such file") {
		t.Errorf("%+v", got)
	}
}

// TestEndings writes files without --format: the ending of the name chooses the format.
func TestEndings(t *testing.T) {
	require.NoKernel(t)
	dir := t.TempDir()
	for ending, start := range map[string]string{".svg": "<?xml", ".html": "<!DOCTYPE html>", ".pb.gz": "\x1f\x8b", ".json": "{", ".txt": "# "} {
		file := filepath.Join(dir, "out"+ending)
		got := runHere(t, "report", "-i", filepath.Join(recordings, "callchain.data"), "-o", file)
		content, err := os.ReadFile(file)
		if got.status != 0 || err != nil || !strings.HasPrefix(string(content), start) {
			t.Errorf("%s: %+v, %v, %.20q", ending, got, err, content)
		}
	}
	file := filepath.Join(dir, "folded.json")
	if got := runHere(t, "report", "-i", filepath.Join(recordings, "callchain.data"), "-o", file, "--format", "csv"); got.status != 0 {
		t.Errorf("%+v", got)
	}
	if content, err := os.ReadFile(file); err != nil || strings.HasPrefix(string(content), "{") {
		t.Errorf("--format csv wrote %.20q, %v", content, err)
	}
}

// TestInput reads recordings from standard input: with -i -, and without -i where a pipe or a recording is connected to it.
func TestInput(t *testing.T) {
	require.NoKernel(t)
	dir := t.TempDir()
	read := func(name string) []byte {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	for name, content := range map[string][]byte{
		"perf.data": read(filepath.Join(recordings, "callchain.data")),
		"pipe.data": read(filepath.Join(recordings, "pipe.data")),
		"text":      []byte("no recording\n"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name, stdin string
		piped       bool
		args        []string
		want        string // the recording that is read
	}{
		{"a pipe", "pipe.data", true, nil, "pipe.data"},
		{"a pipe by name", "pipe.data", true, []string{"-i", "-"}, "pipe.data"},
		{"a pipe beside a file", "pipe.data", true, []string{"-i", "perf.data"}, "perf.data"},
		{"a file", "pipe.data", false, nil, "pipe.data"},
		{"a file with its index", "perf.data", false, []string{"-i", "-"}, "perf.data"},
		{"a file that is no recording", "text", false, nil, "perf.data"},
		{"nothing", os.DevNull, false, nil, "perf.data"},
	}
	for _, command := range [][]string{{"report"}, {"script"}, {"annotate", "--percent-limit", "0"}} {
		for _, tt := range tests {
			name := tt.stdin
			if name != os.DevNull {
				name = filepath.Join(dir, name)
			}
			file, err := os.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			cmd, named := bperf(append(command, tt.args...)...), bperf(append(command, "-i", tt.want)...)
			cmd.Dir, named.Dir, cmd.Stdin = dir, dir, file
			if tt.piped {
				cmd.Stdin = bufio.NewReader(file)
			}
			got, want := run(t, cmd), run(t, named)
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(result{})); diff != "" {
				t.Errorf("%s, %s (-want +got):\n%s", command[0], tt.name, diff)
			}
		}
	}
}

// TestReportRefuses checks that invalid options fail, and write nothing.
func TestReportRefuses(t *testing.T) {
	require.NoKernel(t)
	input := filepath.Join(recordings, "callchain.data")
	tests := []struct {
		args   []string
		status int
		stderr string
	}{
		{[]string{"--format", "svg"}, statusBadOption, "the formats are table, json"},
		{[]string{"-s", "symbl"}, statusBadOption, `did you mean "symbol"?`},
		{[]string{"-F", "overhed"}, statusBadOption, `did you mean "overhead"?`},
		{[]string{"-g", "graf"}, statusBadOption, `"graf" is no mode`},
		{[]string{"--percentage", "half"}, statusBadOption, "relative and absolute"},
		{[]string{"-i", "nowhere.data", "--max-stack", "-1"}, statusBadOption, "it is a number of frames, from 0 on"},
		{[]string{"--parent", "("}, statusBadOption, "--parent"},
		{[]string{"--ignore-callees", "["}, statusBadOption, "--ignore-callees"},
		{[]string{"--time-quantum", "0ms"}, statusBadOption, "as 10ms"},
		{[]string{"--time-quantum", "5x"}, statusBadOption, "as 10ms"},
		{[]string{"--time-quantum", ""}, statusBadOption, "as 10ms"},
		{[]string{"--time-quantum", "ms"}, statusBadOption, "as 10ms"},
		{[]string{"--time-quantum", "9223372036854775807s"}, statusBadOption, "as 10ms"},
		{[]string{"--time", "soon"}, statusBadOption, "not a time in seconds"},
		{[]string{"--cpu", "x"}, statusBadOption, `--cpu: CPU list "x"`},
		{[]string{"--format", "pprof", "--diff", input}, statusBadCombination, "not pprof"},
		{[]string{"-w", "10,-1"}, statusBadOption, "-1 is not from 0 to 1000"},
		{[]string{"-w", "1001"}, statusBadOption, "1001 is not from 0 to 1000"},
		{[]string{"-w", "x"}, statusBadOption, "-w x: give whole numbers with commas between them"},
		{[]string{"-H", "--format", "csv"}, statusBadCombination, "--hierarchy is for the format table"},
		{[]string{"-T", "--format", "json"}, statusBadCombination, "--threads is for the format table"},
		{[]string{"--total-cycles", "--format", "json"}, statusBadCombination, "--total-cycles is for the format table"},
		{[]string{"-T", "--diff", input}, statusBadCombination, "--threads is for the format table"},
		{[]string{"-H", "--diff", input}, statusBadCombination, "--hierarchy is for the format table"},
		{[]string{"--format", "folded", "-e", "nothing"}, statusFailed, "there are no samples of it"},
		{[]string{"-b"}, statusFailed, "no branch data"},
		{[]string{"--mem-mode"}, statusFailed, "no memory data"},
		{[]string{"-b", "--mem-mode"}, statusBadCombination, "choose one"},
		{[]string{"-b", "--format", "html"}, statusBadCombination, "not html"},
		{[]string{"-s", "mispredict"}, statusBadOption, "it needs -b"},
		{[]string{"-s", "type"}, statusBadOption, "bperf does not look for types of data"},
		{[]string{"-s", "sched_switch.next_comm", "--diff", input}, statusBadOption, "none of this name"},
		{[]string{"-s", "waker"}, statusBadOption, "none of this name"}, // a key of profile
		{[]string{"-i", "nowhere.data"}, statusFailed, "make a recording"},
		{[]string{"-i", "report_test.go"}, statusFailed, "report_test.go"},
	}
	for _, tt := range tests {
		got := runHere(t, append([]string{"report", "-i", input}, tt.args...)...)
		if got.status != tt.status || !strings.Contains(got.stderr, tt.stderr) || got.stdout != "" {
			t.Errorf("%q: %+v\nwant status %d and %q", tt.args, got, tt.status, tt.stderr)
		}
	}
}

func TestDiff(t *testing.T) {
	require.NoKernel(t)
	input := filepath.Join(recordings, "callchain.data")
	written := filepath.Join(t.TempDir(), "profile.pb.gz")
	if got := run(t, bperf("report", "-i", input, "--format", "pprof", "-o", written)); got.status != 0 {
		t.Fatalf("%+v", got)
	}
	for _, base := range []string{input, written} {
		got := run(t, bperf("diff", base, input))
		if got.status != 0 || !strings.Contains(got.stdout, "# Baseline  Delta Abs  Shared Object") {
			t.Fatalf("diff: %+v", got)
		}
		for _, line := range strings.Split(got.stdout, "\n") {
			if line != "" && line[0] != '#' && !strings.Contains(line, "+0.00%") {
				t.Errorf("a recording differs from itself: %s", line)
			}
		}
	}
	piped := bperf("diff", "/dev/stdin", filepath.Join(recordings, "pipe.data")) // bperf must not consume bytes of a pipe to detect its format
	stream, err := os.Open(filepath.Join(recordings, "pipe.data"))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	piped.Stdin = bufio.NewReader(stream)
	if got := run(t, piped); got.status != 0 || !strings.Contains(got.stdout, "100.00%     +0.00%") {
		t.Errorf("diff with a pipe: %+v", got)
	}
	for _, args := range [][]string{{"--tid", "1"}, {"-s", "symoff"}} {
		if got := run(t, bperf(append(append([]string{"diff"}, args...), written, input)...)); got.status != statusBadCombination || !strings.Contains(got.stderr, written+" is a pprof profile") {
			t.Errorf("%q: %+v", args, got)
		}
	}
	if got := run(t, bperf("diff", "nowhere", input)); got.status != statusFailed || !strings.Contains(got.stderr, "nowhere") {
		t.Errorf("diff with what is not there: %+v", got)
	}
}

// TestBrokenPrograms reads a recording whose feature BPF_PROG_INFO claims more programs than it has. bperf must show the samples and report
// the missing data.
func TestBrokenPrograms(t *testing.T) {
	require.NoKernel(t)
	whole := filepath.Join(recordings, "bpf.data")
	reader, err := perfdata.Open(whole)
	if err != nil {
		t.Fatal(err)
	}
	section, _ := reader.Features().Raw(perfdata.FeatureBPFProgInfo)
	reader.Close()
	file, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(file, section)
	if at < 0 || len(section) < 4 {
		t.Fatalf("%s has no programs", whole)
	}
	copy(file[at:], "\xff\xff\xff\xff")
	broken := filepath.Join(t.TempDir(), "broken.data")
	if err := os.WriteFile(broken, file, 0o600); err != nil {
		t.Fatal(err)
	}
	const why = "feature BPF_PROG_INFO: program 2 of 4294967295"
	for _, command := range []string{"report", "script", "annotate"} {
		want, got := run(t, bperf(command, "-i", whole)), run(t, bperf(command, "-i", broken))
		// On other machines, annotate may find no function of this recording.
		if got.status != want.status || got.stdout != want.stdout || command != "annotate" && (want.status != 0 || want.stdout == "") {
			t.Errorf("%s: status %d, -whole +broken:\n%s", command, got.status, cmp.Diff(want.stdout, got.stdout))
		}
		if !strings.Contains(got.stderr, why) || strings.Contains(want.stderr, why) {
			t.Errorf("%s: %q; of the whole recording: %q", command, got.stderr, want.stderr)
		}
		if command == "annotate" { // annotate has no --header-only
			continue
		}
		if head := run(t, bperf(command, "-i", broken, "--header-only")); head.status != 0 || !strings.Contains(head.stdout, why) ||
			!strings.Contains(head.stdout, "# bpf_prog_info ") || !strings.Contains(head.stdout, "# btf info of id ") {
			t.Errorf("%s: %+v", command, head)
		}
	}
}

// TestMessagesOnce wants a problem that both recordings have to be printed once.
func TestMessagesOnce(t *testing.T) {
	require.NoKernel(t)
	recording := filepath.Join(recordings, "callchain.data")
	reader, err := perfdata.Open(recording)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(recording)
	if err != nil {
		t.Fatal(err)
	}
	ids, err := reader.Features().Get(perfdata.FeatureBuildID)
	reader.Close()
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids.(perfdata.BuildIDs) {
		if id.Filename == "[kernel.kallsyms]" { // the kernel of the recording can be the one that runs here
			file = bytes.ReplaceAll(file, id.BuildID, bytes.Repeat([]byte{1}, len(id.BuildID)))
		}
	}
	input := filepath.Join(t.TempDir(), "input.data")
	if err := os.WriteFile(input, file, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"diff", input, input}, {"report", "-i", input, "--diff", input}} {
		got := run(t, bperf(args...))
		lines := strings.Split(strings.TrimSuffix(got.stderr, "\n"), "\n")
		slices.Sort(lines)
		if got.status != 0 || !strings.Contains(got.stderr, "no symbols of the kernel") || len(slices.Compact(slices.Clone(lines))) != len(lines) {
			t.Errorf("%v: status %d, printed %q", args, got.status, lines)
		}
	}
}
