package cli

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/internal/annotate"
	"github.com/bperf/bperf/test/bpfprogram"
	"github.com/bperf/bperf/test/require"
)

// testOutput has a command write to standard output, to a file and to a full device.
func testOutput(t *testing.T, args ...string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "out")
	to := func(path string) result { return runHere(t, append(slices.Clone(args), "-o", path)...) }
	want := runHere(t, args...)
	if got := to("-"); got.stdout != want.stdout || want.stdout == "" {
		t.Errorf("%v -o -: %+v, want %+v", args, got, want)
	}
	got := to(file)
	if text, err := os.ReadFile(file); err != nil || string(text) != want.stdout || got.stdout != "" {
		t.Errorf("%v -o FILE: %q and %q, %v; want %q", args, got.stdout, text, err, want.stdout)
	}
	if got := to("/dev/full"); got.status != statusFailed || strings.Count(got.stderr, "/dev/full") != 1 {
		t.Errorf("%v -o /dev/full: %+v", args, got)
	}
}

func TestAnnotateRefuses(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"--format", "pdf"}, 129, "--format is text, json or html"},
		{[]string{"--percent-limit", "101"}, 129, "from 0 to 100"},
		{[]string{"-M", "nasm"}, 129, "-M nasm: the styles are att and intel"},
		{[]string{"-s", "f", "g"}, 129, "the symbol is given twice"},
		{[]string{"f", "g"}, statusFailed, "takes only one argument"},
		{[]string{"-i", empty + "-not"}, statusFailed, "make a recording with bperf record"},
		{[]string{"-i", empty}, statusFailed, "0 bytes"},
		{[]string{"-i", filepath.Join(recordings, "callchain.data"), "--time", "noon"}, 129, "is not a time"},
	} {
		got := runHere(t, append([]string{"annotate"}, tt.args...)...)
		if got.status != tt.status || !strings.Contains(got.stderr, tt.want) || got.stdout != "" {
			t.Errorf("%q: %+v, want status %d and %q", tt.args, got, tt.status, tt.want)
		}
	}
}

// annotated annotates a recording as JSON.
func annotated(t *testing.T, args ...string) annotate.Report {
	t.Helper()
	got := run(t, bperf(append([]string{"annotate", "--json"}, args...)...))
	if got.status != 0 {
		t.Fatalf("annotate %q: %+v", args, got)
	}
	var report annotate.Report
	unwrap(t, got.stdout, annotateSchema, &report)
	for _, f := range report.Functions {
		sum, samples := 0.0, uint64(0)
		for _, i := range f.Instructions {
			sum += i.Values[0].Percent
			samples += i.Values[0].Samples
		}
		if math.Abs(sum-100) > 1e-6 || samples != f.Values[0].Samples {
			t.Errorf("the instructions of %s have %g %% and %d samples; it has %d", f.Name, sum, samples, f.Values[0].Samples)
		}
	}
	return report
}

// cpuTime returns the CPU time that this process has used.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// TestAnnotatePrograms records a BPF program and annotates it after it is unloaded: its functions with their instructions and lines.
func TestAnnotatePrograms(t *testing.T) {
	require.Root(t)
	program, err := bpfprogram.Load()
	if err != nil {
		t.Fatal(err)
	}
	info, err := program.Info()
	if err != nil {
		t.Fatal(err)
	}
	id, _ := info.ID()
	file := filepath.Join(t.TempDir(), "perf.data")
	var report annotate.Report
	for used := 300 * time.Millisecond; ; used *= 2 { // 600 samples at first; a guest that waits for CPUs gets few of its timer interrupts
		recordProgram(t, file, program, used)
		report = annotated(t, "-i", file, "-b", fmt.Sprint(id))
		samples := uint64(0)
		for _, f := range report.Functions {
			samples += f.Values[0].Samples
		}
		if samples >= 300 {
			break
		}
		t.Logf("%d samples in %v", samples, used)
	}
	program.Close()
	report = annotated(t, "-i", file, "-b", fmt.Sprint(id))
	shares := make(map[string]float64)
	for _, f := range report.Functions {
		_, name, _ := strings.Cut(strings.TrimPrefix(f.Name, "bpf_prog_"), "_")
		shares[name] = f.Values[0].Percent
		if f.Program == nil || f.Program.ID != uint32(id) || f.Program.Name != bpfprogram.Spin || f.Missing != "" || f.NoSource != "" {
			t.Errorf("%+v", f)
		}
		if len(f.Lines) == 0 || !strings.HasSuffix(f.Lines[0].File, "spin.bpf.c") {
			t.Errorf("%s has no lines: %+v", f.Name, f.Lines)
		}
		for _, i := range f.Instructions {
			if i.Text == "(bad)" {
				t.Errorf("%s: %s at %s is not known", f.Name, i.Bytes, i.Address)
			}
		}
	}
	t.Logf("shares: %v", shares)
	// The long loop does 600 of the 800 turns of both loops. Where time is emulated, an instruction may take any time.
	if part := shares[bpfprogram.SpinLong] / (shares[bpfprogram.SpinLong] + shares[bpfprogram.Turn]); math.Abs(part-0.75) > 0.15 {
		t.Errorf("%.2f of the time is the long function's, want about 0.75: %v", part, shares)
	}
	text := run(t, bperf("annotate", "-i", file, "-b", bpfprogram.Spin, "-l"))
	for _, pattern := range []string{
		`(?m)^ +: # BPF program \d+ spin, tag [0-9a-f]{16}$`,
		`(?m)^ +\d+\.\d\d : spin\.bpf\.c:\d+ y = y \* 2862933555777941757ull \+ 3037000493ull;$`,
		`(?m)^ +: [0-9a-f]{16} <bpf_prog_[0-9a-f]{16}_spin_long>:$`,
	} {
		if !regexp.MustCompile(pattern).MatchString(text.stdout) {
			t.Errorf("nothing matches %s in\n%s", pattern, text.stdout)
		}
	}
	testOutput(t, "annotate", "-i", file, "-b", fmt.Sprint(id))
	if require.IsGuest() {
		return
	}
	if got := run(t, bperf("annotate", "-i", file, "-b", "nosuch")); got.status != statusFailed || !strings.Contains(got.stderr, "is in the selected functions") {
		t.Errorf("%+v", got)
	}
}

// recordProgram records the machine while a BPF program runs, for some CPU time of this process.
func recordProgram(t *testing.T, file string, program *ebpf.Program, used time.Duration) {
	t.Helper()
	recording := bperf("record", "-q", "-a", "-e", "cpu-clock", "-F", "1999", "-o", file, "sh", "-c", "echo recording; exec cat")
	stdin, err := recording.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, _, stderr := startReading(t, recording)
	if line, err := stdout.ReadString('\n'); err != nil {
		t.Fatalf("%q, %v, %s", line, err, stderr)
	}
	for from := cpuTime(t); cpuTime(t)-from < used; {
		if err := bpfprogram.Run(program, 500); err != nil {
			t.Fatal(err)
		}
	}
	stdin.Close()
	if err := recording.Wait(); err != nil {
		t.Fatalf("%v, %s", err, stderr)
	}
}

// spinFunction is a function in C that takes time.
const spinFunction = `
__attribute__((noinline)) unsigned long spin(unsigned long n) {
	unsigned long x = n;
	while (n--)
		x = x * 31 + (x >> 7);
	return x;
}
`

// TestAnnotateLikePerf expects the percentages of both perfs for each instruction of a C program.
func TestAnnotateLikePerf(t *testing.T) {
	require.Tools(t, "gcc", "objdump")
	require.Root(t)
	perfs := []string{distributionPerf(t), require.NewestPerf(t)}
	dir := t.TempDir()
	source, binary, file := filepath.Join(dir, "spin.c"), filepath.Join(dir, "spin"), filepath.Join(dir, "perf.data")
	if err := os.WriteFile(source, []byte(spinFunction+`int main(void) { return spin(300000000) & 1; }
`), 0o644); err != nil {
		t.Fatal(err)
	}
	within := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.WaitDelay = time.Minute
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s %q: %v", name, args, err)
		}
		return string(out)
	}
	within("gcc", "-g", "-O1", "-o", binary, source)
	if got := run(t, bperf("record", "-q", "-e", "cpu-clock:u", "-c", "500000", "-o", file, binary)); got.status > 1 {
		t.Fatalf("%+v", got)
	}
	report := annotated(t, "-i", file, "spin")
	if len(report.Functions) != 1 {
		t.Fatalf("%d functions", len(report.Functions))
	}
	f := report.Functions[0]
	got := make(map[string]string)
	for _, i := range f.Instructions {
		got[strings.TrimPrefix(i.Address.String(), "0x")] = strconv.FormatFloat(i.Values[0].Percent, 'f', 2, 64)
	}
	heading := func(text string) string { // the lines before the first instruction or source line
		lines := strings.SplitN(text, "\n", 3)
		return strings.Join(lines[:min(2, len(lines))], "\n")
	}
	for _, perf := range perfs {
		for _, args := range [][]string{{}, {"-n"}, {"--show-total-period"}, {"--percent-type", "global-hits"}} {
			args = append([]string{"annotate", "--stdio", "-i", file, "-s", "spin"}, args...)
			if diff := cmp.Diff(heading(within(perf, args...)), heading(run(t, bperf(args...)).stdout)); diff != "" {
				t.Errorf("%q (-%s +bperf):\n%s", args, perf, diff)
			}
		}
		want := make(map[string]string)
		for _, m := range regexp.MustCompile(`(?m)^ +(\d+\.\d\d) : +([0-9a-f]+):`).FindAllStringSubmatch(
			within(perf, "annotate", "--stdio", "-i", file, "spin"), -1) {
			want[m[2]] = m[1]
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-%s +bperf):\n%s", perf, diff)
		}
	}
	// As in perf, a function without samples is no failure.
	if got := run(t, bperf("annotate", "-i", file, "none")); got.status != 0 || !strings.Contains(got.stderr, "is in the selected functions") {
		t.Errorf("annotate none: %+v", got)
	}
	if len(f.Instructions) < 5 || len(f.Lines) < 2 || f.Lines[0].File != source || !strings.Contains(f.Lines[0].Text, "x = x * 31") {
		t.Errorf("%d instructions; lines %+v", len(f.Instructions), f.Lines)
	}
}
