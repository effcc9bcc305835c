package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/require"
)

// TestCommandLines runs public command lines of perf under the name perf, once as perf and once as bperf. Status and shape must be equal,
// except where the list says that they differ: there they must differ.
func TestCommandLines(t *testing.T) {
	require.NoPMU(t)
	require.Tools(t, "gcc", "objdump")
	require.PlainNames(t)
	require.Tracefs(t) // perf would mount it for one of the lines, and for those that happen to run later
	distribution, newest := distributionPerf(t), require.NewestPerf(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	recording := recordSpin(t, distribution)
	perfs := map[bool]*lineTool{false: newLineTool(t, distribution, recording), true: newLineTool(t, newest, recording)}
	bperfs := map[bool]*lineTool{
		false: newLineTool(t, self, recording, "BPERF_TEST_MAIN=1", compatVariable+"=6.1"),
		true:  newLineTool(t, self, recording, "BPERF_TEST_MAIN=1"),
	}
	lines := readCommandLines(t)
	results := make([]struct{ perf, bperf lineResult }, len(lines))
	var running sync.WaitGroup
	next := make(chan int)
	for range 16 { // perf waits for the kernel for most of its time
		running.Go(func() {
			for i := range next {
				l := lines[i]
				if l.notCompared == "" {
					results[i].perf = perfs[l.newest].run(t, l.as)
				}
				results[i].bperf = bperfs[l.newest].run(t, l.as)
			}
		})
	}
	for i := range lines {
		next <- i
	}
	close(next)
	running.Wait()
	for i, l := range lines {
		r := results[i]
		if l.notCompared != "" {
			if r.bperf.status != 0 {
				t.Errorf("%s: status %d: %s", l.as, r.bperf.status, r.bperf.stderr)
			}
			continue
		}
		diff := cmp.Diff(r.perf.shape(t, l.as), r.bperf.shape(t, l.as))
		switch {
		case diff != "" && l.differs == "":
			t.Errorf("%s (-perf +bperf):\n%s\nperf printed %.400s\nbperf printed %.400s", l.as, diff, r.perf.stderr, r.bperf.stderr)
		case diff == "" && l.differs != "":
			t.Errorf("%s is listed as different (%s), but is not", l.as, l.differs)
		}
	}
	if len(lines) < 150 {
		t.Errorf("%d command lines", len(lines))
	}
}

// commandLine is an entry of testdata/command-lines.txt, whose head explains the fields.
type commandLine struct {
	found, as, differs, notCompared string
	newest                          bool
}

// readCommandLines returns the entries of testdata/command-lines.txt.
func readCommandLines(t *testing.T) (all []*commandLine) {
	t.Helper()
	text, err := os.ReadFile("testdata/command-lines.txt")
	if err != nil {
		t.Fatal(err)
	}
	var source string
	var last *commandLine
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		entry := strings.TrimLeft(line, "\t")
		name, value, _ := strings.Cut(entry, ": ")
		switch level := len(line) - len(entry); {
		case line == "" || line[0] == '#':
		case level == 0 && strings.HasPrefix(line, "https://"):
			source = line
		case level == 1 && strings.HasPrefix(entry, "perf ") && source != "":
			if slices.ContainsFunc(all, func(l *commandLine) bool { return l.found == entry }) {
				t.Fatalf("%s is listed twice", entry)
			}
			last = &commandLine{found: entry, as: entry}
			all = append(all, last)
		case level == 2 && name == "as":
			last.as = value
		case level == 2 && name == "differs":
			last.differs = value
		case level == 2 && name == "not compared":
			last.notCompared = value
		case level == 2 && entry == "with 7.2":
			last.newest = true
		default:
			t.Fatalf("not an entry: %q", line)
		}
	}
	return all
}

// recordSpin returns a recording of a program that spends its time in a function spin.
func recordSpin(t *testing.T, perf string) []byte {
	t.Helper()
	dir := t.TempDir()
	source, binary, file := filepath.Join(dir, "spin.c"), filepath.Join(dir, "spin"), filepath.Join(dir, "perf.data")
	// Call chains end in _start, where the frame pointer is 0 as in all new programs. If it had a frame, they would go on to the number of
	// arguments, and perf 6.1 takes that address for one of the kernel or of the user, depending on where the first sample was.
	if err := os.WriteFile(source, []byte(spinFunction+`volatile unsigned long result;
extern void _exit(int);
__attribute__((noinline)) static void run(void) { result = spin(100000000); }
__attribute__((optimize("omit-frame-pointer"))) void _start(void) { run(); _exit(0); }
`), 0o600); err != nil {
		t.Fatal(err)
	}
	output(t, exec.Command("gcc"), "-g", "-O1", "-fno-omit-frame-pointer", "-static", "-nostartfiles", "-o", binary, source)
	output(t, exec.Command(perf), "record", "-q", "-N", "-g", "-e", "cpu-clock", "-F", "999", "-o", file, binary)
	recording, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return recording
}

// lineTool runs command lines with one perf.
type lineTool struct {
	bin       string // has perf and the programs that the command lines run
	home      string
	env       []string
	recording []byte
}

// linePrograms are the programs that the command lines run, and scratchPrograms those that they run by a path.
var (
	linePrograms = []string{"cal", "cargo", "command", "dialyzer", "firefox", "make", "ninja", "node", "paxtest", "pg_ctl", "python", "sleep", "stress-ng",
		"wasmtime"}
	scratchPrograms = []string{"command", "git", "hackbench", "testprog", "out/x64.release/d8", "target/release/app"}
)

// lineProgram takes the place of those programs. It waits until the process PID has used the CPU, so that there is something to count.
const lineProgram = `#!/bin/sh
used() { read -r all < /proc/$PID/stat; set -- ${all##*) }; echo $((${12} + ${13})); }
[ "$PID" ] || exit 0
start=$(used)
while [ "$(used)" = "$start" ]; do :; done
`

// lineVariables are the variables in the command lines.
var lineVariables = []string{"cmd=./command", "testprog=./testprog", "prog=./testprog", "testsym=spin", "CURRENT_TEST_DIR=.", "PERF_DATA=perf.data",
	"perfdata=perf.data", "perfdata1=perf.data.old", "perfdata2=perf.data", "data=pipe.data", "stat_output=stat.out", "list_output=list.out"}

func newLineTool(t *testing.T, perf string, recording []byte, env ...string) *lineTool {
	t.Helper()
	tool := &lineTool{t.TempDir(), t.TempDir(), env, recording}
	if err := os.Symlink(perf, filepath.Join(tool.bin, "perf")); err != nil {
		t.Fatal(err)
	}
	for _, name := range linePrograms {
		writeProgram(t, filepath.Join(tool.bin, name), lineProgram)
	}
	for _, name := range []string{"pidof", "pgrep"} {
		writeProgram(t, filepath.Join(tool.bin, name), "#!/bin/sh\necho $PID\n")
	}
	return tool
}

func writeProgram(t *testing.T, path, text string) {
	t.Helper()
	syscall.ForkLock.RLock() // a child of another goroutine would keep the file open for writing until its exec: "text file busy"
	defer syscall.ForkLock.RUnlock()
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err = errors.Join(err, os.WriteFile(path, []byte(text), 0o755)); err != nil {
		t.Error(err)
	}
}

var (
	lineInput   = regexp.MustCompile(`(?:-i|--input) (\w[\w.]*)`) // a recording that a command line reads
	lineProcess = regexp.MustCompile(`\$PID\b|pgrep|pidof`)       // in command lines for a process that runs already
)

// lineResult is what a command line printed, and the directory of the files that it wrote.
type lineResult struct {
	result
	dir string
}

// run runs a command line in a new directory that has the recording. Any goroutine may call it.
func (tool *lineTool) run(t *testing.T, line string) lineResult {
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	got := lineResult{dir: t.TempDir()}
	inputs := []string{"perf.data", "perf.data.old"}
	for _, m := range lineInput.FindAllStringSubmatch(line, -1) {
		inputs = append(inputs, m[1])
	}
	for _, name := range inputs {
		path, captured := filepath.Join(got.dir, name), time.Unix(1700000000, 0) // headers print when the file was written
		if err := errors.Join(os.WriteFile(path, tool.recording, 0o600), os.Chtimes(path, captured, captured)); err != nil {
			t.Error(err)
		}
	}
	for _, name := range scratchPrograms {
		writeProgram(t, filepath.Join(got.dir, name), lineProgram)
	}
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", line)
	cmd.Dir, cmd.WaitDelay = got.dir, time.Minute
	cmd.Env = slices.Concat(os.Environ(), lineVariables, tool.env,
		[]string{"PATH=" + tool.bin + ":/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + tool.home, "LC_ALL=C"})
	if lineProcess.MatchString(line) {
		busy := exec.CommandContext(ctx, "/bin/sh", "-c", "while :; do :; done")
		if err := busy.Start(); err != nil {
			t.Error(err)
			return got
		}
		defer func() {
			stop()
			busy.Wait()
		}()
		cmd.Env = append(cmd.Env, fmt.Sprintf("PID=%d", busy.Process.Pid))
	}
	printed := [2]*os.File{} // files, because perf record writes recordings to pipes
	for i := range printed {
		f, err := os.CreateTemp(t.TempDir(), "")
		if err != nil {
			t.Error(err)
			return got
		}
		defer f.Close()
		printed[i] = f
	}
	cmd.Stdout, cmd.Stderr = printed[0], printed[1]
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Errorf("%s: %v", line, err)
		return got
	}
	stdout, err := os.ReadFile(printed[0].Name())
	stderr, err2 := os.ReadFile(printed[1].Name())
	if err := errors.Join(err, err2); err != nil {
		t.Error(err)
	}
	got.result = result{string(stdout), string(stderr), cmd.ProcessState.ExitCode()}
	return got
}

// shape returns the status of a command line and, if that is 0, the parts of its output that do not depend on chance and load.
func (r lineResult) shape(t *testing.T, line string) string {
	t.Helper()
	status := fmt.Sprintf("status %d\n", r.status)
	if r.status != 0 {
		return status
	}
	out, recordings := r.written(t)
	switch command := lineCommand.FindStringSubmatch(line)[1]; command {
	case "stat":
		return status + statShape(r.stderr+out, strings.Contains(line, " -e "))
	case "record":
		return status + recordShape(r.stderr) + recordings
	case "report", "diff":
		return status + headShape(out) + rowShape(out)
	case "script":
		return status + firstLines(out, 3)
	case "annotate":
		return status + firstLines(out, 2)
	case "list":
		return status + kindsShape(out)
	case "buildid-list":
		return status + strings.Join(slices.Sorted(strings.Lines(out)), "")
	default:
		return status + out
	}
}

// lineCommand finds the subcommand of a command line.
var lineCommand = regexp.MustCompile(`\bperf (\S+)`)

// written returns standard output with the text of the files that the line wrote, and descriptions of the recordings in the directory.
func (r lineResult) written(t *testing.T) (text, recordings string) {
	t.Helper()
	text = r.stdout
	files, err := os.ReadDir(r.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		path := filepath.Join(r.dir, f.Name())
		if !f.Type().IsRegular() || slices.Contains(scratchPrograms, f.Name()) {
			continue
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.HasPrefix(b, []byte("PERFILE2")) {
			recordings += describeRecording(path)
		} else {
			text += string(b)
		}
	}
	return text, recordings
}

// eventModifiers are those at the end of the name of an event that is no tracepoint.
var eventModifiers = regexp.MustCompile(`:[pukHGP]+$`)

// describeRecording returns a recording's name, and the names, periods and sample types of its events. It leaves out IDs, and the event
// that perf adds for records that are no samples.
func describeRecording(path string) string {
	out := filepath.Base(path) + ":"
	r, err := perfdata.Open(path)
	if err != nil {
		return fmt.Sprintf("%s %v\n", out, err)
	}
	defer r.Close()
	for _, e := range r.Events() {
		if name := eventModifiers.ReplaceAllString(e.Name, ""); name != "dummy" || len(r.Events()) == 1 {
			out += fmt.Sprintf(" %s %d %#x", name, e.Attr.SamplePeriod, e.Attr.SampleType&^(perfdata.SampleIdentifier|perfdata.SampleEventID))
		}
	}
	return out + "\n"
}

var (
	lineNumber    = regexp.MustCompile(`\b\d+(?:[.,]\d+)*\b|\bnan\b`)
	lineBlanks    = regexp.MustCompile(`[ \t]+`)
	perSecond     = regexp.MustCompile(`[KMG]/sec`)
	ofSeveralRuns = regexp.MustCompile(` *\( ?\+- *N% *\)| *\(N%\)`)
	tableOfRuns   = regexp.MustCompile(` \([+-]N\) #*`)
	notCountable  = regexp.MustCompile(`: not (supported|counted): `)
)

// plainLine returns a line with single blanks, and N in place of each number.
func plainLine(line string) string {
	return lineBlanks.ReplaceAllString(lineNumber.ReplaceAllString(strings.TrimSpace(line), "N"), " ")
}

// statShape returns each different line. It leaves out how much the runs differ, and what bperf prints below the table. Without events on
// the command line, it also leaves out those that the machine cannot count.
func statShape(text string, named bool) string {
	var lines []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "# started on ") || notCountable.MatchString(line) || !named && strings.Contains(line, "<not supported>") {
			continue
		}
		line = perSecond.ReplaceAllString(tableOfRuns.ReplaceAllString(ofSeveralRuns.ReplaceAllString(plainLine(line), ""), ""), "/sec")
		if line != "" && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// recordShape returns perf's own lines, without the number of samples: there may be none.
func recordShape(stderr string) (shape string) {
	for line := range strings.Lines(stderr) {
		if strings.Contains(line, "perf record: ") {
			shape += strings.ReplaceAll(plainLine(line), " (N samples)", "") + "\n"
		}
	}
	return shape
}

// headShape returns the lines before a table but the last one, which is perf's tip. It leaves out the tags of functions of BPF programs that
// other tests had loaded: bperf names a program's first function as the kernel does, perf with the function's own tag.
func headShape(text string) (shape string) {
	dots, tag := regexp.MustCompile(`\.{2,}`), regexp.MustCompile(`\bbpf_prog_[0-9a-f]+_`)
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "# ") && !strings.HasPrefix(line, "# (") {
			shape += plainLine(tag.ReplaceAllString(dots.ReplaceAllString(line, "."), "bpf_prog_")) + "\n"
		}
	}
	return shape
}

// rowShape returns the first row for the function spin.
func rowShape(text string) string {
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") && strings.Contains(line, "spin") {
			return strings.ReplaceAll(plainLine(line), " ;", ";")
		}
	}
	return ""
}

// firstLines returns the first n lines that have more than hyphens.
func firstLines(text string, n int) (shape string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); strings.Trim(line, "-") != "" && n > 0 {
			shape += lineBlanks.ReplaceAllString(line, " ") + "\n"
			n--
		}
	}
	return shape
}

// kindsShape returns the kinds of events in a list.
func kindsShape(text string) string {
	kinds := regexp.MustCompile(`\[[A-Z][\w ]+ event\]`).FindAllString(text, -1)
	slices.Sort(kinds)
	return strings.Join(slices.Compact(kinds), "\n")
}
