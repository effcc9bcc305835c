package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf/link"

	"github.com/bperf/bperf/internal/record"
	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/program"
	"github.com/bperf/bperf/test/require"
)

func TestRecordRefuses(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, tt := range []struct {
		args   string
		status int
		want   string
	}{
		{"-F 99 -c 9 true", 22, "give only one"},
		{"-c 0 true", 22, "-c 0"},
		{"-F 0 true", 129, "-F 0: give a number of samples"},
		{"-F often true", 129, "-F often: give a number of samples per second, or max"},
		{"--strict-freq true", 22, "the frequency of -F"},
		{"-p 1 -t 1", 22, "-p and -t cannot be combined"},
		{"-u 0 -p 1", 22, "-u records all processes of a user: leave out -p and -t"},
		{"-u 4000000000", statusFailed, "the user 4000000000 has no processes"},
		{"-u no:such", statusFailed, `look up the user "no:such"`},
		{"--max-size 100 true", 129, "--max-size 100: give a size with B, K, M or G"},
		{"-r 100 true", 22, "-r 100: the priority must be from 1 to 99"},
		{"--synth=task,some true", 129, `--synth=task,some: "some" is not one of task, mmap, cgroup, all and no`},
		{"--synth= true", 129, "is not one of task"},
		{"--exclude-perf -e cpu-clock true", 129, "--exclude-perf applies to the tracepoint before it"},
		{"-e cpu-clock --exclude-perf true", 129, "--exclude-perf applies to the tracepoint before it"},
		{"--off-cpu-thresh 7 true", 22, "add --off-cpu"},
		{"--off-cpu --off-cpu-thresh 10000000000000 true", 129, "more than 292 years"},
		{"--switch-max-files 3 true", 22, "add --switch-output"},
		{"--switch-output --switch-max-files -1 true", 22, "give a number of files, or 0 to keep all"},
		{"--switch-output-event nosuch true", 129, "there is no event nosuch"},
		{"--switch-output-event page-faults true", 129, "such as page-faults/period=1/"},
		{"--switch-output-event page-faults/period=1/ -o - true", 22, "it cannot write to a pipe"},
		{"--user-callchains --kernel-callchains -g true", 22, "give only one"},
		{"--dry-run -e nosuch true", 129, "event syntax error"},
		{"-p x", 129, `"x" is not a number from 1`},
		{"--per-thread -a true", 22, "--per-thread is for threads"},
		{"-e cpu-clock -G / true", 22, "cgroups are measured on CPUs"},
		{"-G / -a true", 129, "give -e first"},
		{"-e nosuch true", 129, "event syntax error"},
		{"-e duration_time true", 129, "cannot be sampled"},
		{"-e cpu-clock:b true", 129, "the modifier b is for counting"},
		{"--filter x true", 129, "give -e first"},
		{"-e cpu-clock --filter pdi==1 true", 129, "at character 1: there is no field \"pdi\": did you mean"},
		{"-e cpu-clock --filter pid==1 --filter cpu== true", 129, "at character 19: cpu is a number"},
		{"-e cpu-clock --filter bpf_prog==no_such_program true", 255, "none of those that are loaded matches"},
		{"--prog filter.c true", 129, "filter.c is source code. bperf loads what clang makes of it: clang -O2 -g -target bpf"},
		{"--prog none.o true", 129, "--prog: stat none.o: no such file"},
		{"--prog id:0 true", 129, "id:0: give the number of a loaded program"},
		{"--prog none.o -e cpu-clock true", 129, "--prog: stat none.o: no such file"},
		{"--prog id:1 --prog id:2 -e cpu-clock true", 129, "--prog id:1 and --prog id:2 are for the same events: give -e before the second one"},
		{"-e cpu-clock --prog id:1 --prog id:2 true", 129, "--prog id:2: all events already have another program"},
		{"--prog id:1 -e cpu-clock --prog id:2 true", 129, "--prog id:1: all events already have another program"},
		{"--set a=1 true", 129, "--set applies to the objects of --prog"},
		{"--prog id:1 --set a=1 true", 129, "there is no global variable a: the objects have none"},
		{"--prog id:1 --set a true", 129, "--set \"a\": give a global variable"},
		{"--call-graph smoke true", 129, "fp, bpf, dwarf or lbr"},
		{"--call-graph dwarf,99999 true", 129, "the stack size must be from 8 to 65528 bytes"},
		{"--call-graph fp,16 true", 129, "only dwarf takes a size"},
		{"-j u,left true", 129, `no kind of branch "left"`},
		{"-b -j u true", 22, "give only one"},
		{"-k sundial true", 129, "clocks are monotonic"},
		{"--off-cpu=soon true", 129, "--off-cpu=soon: give a time"},
		{"--off-cpu=-1 true", 129, "--off-cpu=-1: give a time"},
		{"-Inosuch true", 129, `--intr-regs=nosuch: there is no register "nosuch": the registers are `},
		{"--user-regs= true", 129, `--user-regs=: there is no register ""`},
		{"-m 0 true", 129, "-m 0"},
		{"-m lots true", 129, "a number of pages, or of bytes"},
		{"-z=23 true", 22, "from 1 to 22"},
		{"--switch-output=never true", 129, "signal, a size like 100M, or a time"},
		{"--switch-output -o - true", 22, "it cannot write to a pipe"},
		{"--switch-max-files 3 true", 22, "--switch-max-files limits"},
		{"-D -2 true", 22, "-D -2"},
		{"-D -1 true", 22, "needs --control"},
		{"--timeout 3 -a", 22, "at least 10 ms"},
		{"--control 7 true", 129, "--control takes"},
		{"--dry-run --control 7 -e cpu-clock true", 129, "--control takes"},
		{"--all-user --all-kernel true", 22, "nothing to measure"},
		{"-q -v true", 22, "contradict"},
		{"--nope true", 129, "unknown flag"},
	} {
		got := runHere(t, append([]string{"record"}, strings.Fields(tt.args)...)...)
		if got.status != tt.status || !strings.Contains(got.stderr, tt.want) {
			t.Errorf("record %s: status %d, want %d; %s; want %q", tt.args, got.status, tt.status, got.stderr, tt.want)
		}
		if _, err := os.Stat("perf.data"); err == nil {
			t.Errorf("record %s: leaves a file", tt.args)
		}
	}
}

// recordCommand returns a command that runs bperf record in a temporary directory, with a time limit.
func recordCommand(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	require.Root(t)
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
	t.Cleanup(stop)
	cmd := exec.CommandContext(ctx, "/proc/self/exe", append([]string{"record"}, args...)...)
	cmd.Args[0] = "bperf"
	cmd.Env = append(os.Environ(), "BPERF_TEST_MAIN=1", "LC_ALL=C")
	cmd.Dir = t.TempDir()
	cmd.WaitDelay = time.Minute
	return cmd
}

// samples returns the number of samples in a recording.
func samples(t *testing.T, r *perfdata.Reader, err error) (n int) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for rec, err := range r.Records() {
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := rec.Value.(*perfdata.Sample); ok {
			n++
		}
	}
	return n
}

func samplesOf(t *testing.T, name string) int {
	t.Helper()
	r, err := perfdata.Open(name)
	return samples(t, r, err)
}

const getppidEvent = "syscalls:sys_enter_getppid"

// calls returns the path of a program that calls getppid the given number of times.
func calls(t *testing.T, times uint64, exit uint8) string {
	t.Helper()
	require.Tracefs(t)
	return program.Program{Body: program.GetPPID, Times: times, Exit: exit}.Write(t)
}

// TestRecordSummary expects the exit status of the command, perf's two last lines, and a backup of an existing file.
func TestRecordSummary(t *testing.T) {
	require.AnyArch(t)
	path := calls(t, 100, 7)
	cmd := recordCommand(t, "-o", "perf.data", "-e", getppidEvent, "-c", "1", path)
	got := run(t, cmd)
	want := regexp.MustCompile(`^\[ bperf record: Woken up \d+ times to write data \]\n` +
		`\[ bperf record: Captured and wrote 0\.\d{3} MB perf\.data \(100 samples\) \]\n$`)
	if got.status != 7 || got.stdout != "" || !want.MatchString(got.stderr) {
		t.Errorf("status %d, want 7; printed %d bytes and %q", got.status, len(got.stdout), got.stderr)
	}
	file := filepath.Join(cmd.Dir, "perf.data")
	if n := samplesOf(t, file); n != 100 {
		t.Errorf("%d samples, want 100", n)
	}
	again := recordCommand(t, "-o", "perf.data", "-q", "-e", getppidEvent, "-c", "10", path)
	again.Dir = cmd.Dir
	if got := run(t, again); got.status != 7 || got.stderr != "" {
		t.Errorf("with -q: status %d, printed %q", got.status, got.stderr)
	}
	if now, before := samplesOf(t, file), samplesOf(t, file+".old"); now != 10 || before != 100 {
		t.Errorf("%d samples, and %d in what was there before; want 10 and 100", now, before)
	}
}

// TestRecordMaxSize ends at a size what would never end, and its command with it.
func TestRecordMaxSize(t *testing.T) {
	require.AnyArch(t)
	require.Root(t)
	const limit, ring = 64 << 10, 16 << 10
	cmd := recordCommand(t, "-o", "perf.data", "-e", "cpu-clock", "-m", "16K", "--no-bpf-event", "--max-size", "64K", "sh", "-c", "while :; do :; done")
	got := run(t, cmd)
	info, err := os.Stat(filepath.Join(cmd.Dir, "perf.data"))
	if err != nil || info.Size() < limit || got.status != 0 || !strings.Contains(got.stderr, "size of --max-size: 65536 bytes") {
		t.Errorf("%+v, %v, %v", got, info, err)
	}
	// What is in the rings when the limit is reached follows, and what they get until the events are stopped.
	if size, most := recordsSize(t, filepath.Join(cmd.Dir, "perf.data")), limit+2*ring*runtime.NumCPU()+limit; size > most {
		t.Errorf("%d bytes of records, want at most %d", size, most)
	}
}

// recordsSize returns the size of the records of a recording in bytes.
func recordsSize(t *testing.T, path string) int {
	t.Helper()
	reader, err := perfdata.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	for _, err := range reader.Records() {
		if err != nil {
			t.Fatal(err)
		}
	}
	return int(reader.Stats().Bytes)
}

// TestRecordDryRun checks everything and records nothing.
func TestRecordDryRun(t *testing.T) {
	require.Root(t)
	cmd := recordCommand(t, "-o", "perf.data", "-e", "cpu-clock", "--dry-run", "sh", "-c", "echo ran")
	got := run(t, cmd)
	if _, err := os.Stat(filepath.Join(cmd.Dir, "perf.data")); got != (result{}) || !os.IsNotExist(err) {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestRecordNowhere writes to a device, which must remain a device.
func TestRecordNowhere(t *testing.T) {
	got := run(t, recordCommand(t, "-o", os.DevNull, "-e", getppidEvent, "-c", "1", calls(t, 100, 0)))
	if got.status != 0 || !strings.Contains(got.stderr, "/dev/null (100 samples) ]") {
		t.Errorf("status %d, %s", got.status, got.stderr)
	}
	if info, err := os.Stat(os.DevNull); err != nil || info.Mode()&os.ModeDevice == 0 {
		t.Errorf("%s is %v, %v", os.DevNull, info, err)
	}
}

func TestRecordNoCommand(t *testing.T) {
	got := run(t, recordCommand(t, "-e", "cpu-clock", "/nonexistent/command"))
	if got.status != 255 || !strings.Contains(got.stderr, "Workload failed: No such file or directory") {
		t.Errorf("status %d, %s", got.status, got.stderr)
	}
}

// TestRecordPipe writes to a pipe, with and without -o, and reads the stream.
func TestRecordPipe(t *testing.T) {
	require.AnyArch(t)
	path := calls(t, 1000, 0)
	for _, args := range [][]string{{"-o", "-"}, {}, {"-o", "-", "-z"}} {
		cmd := recordCommand(t, append(args, "-e", getppidEvent, path)...)
		got := run(t, cmd)
		if got.status != 0 {
			t.Fatalf("%v: status %d, %s", args, got.status, got.stderr)
		}
		r, err := perfdata.NewPipeReader(strings.NewReader(got.stdout))
		if n := samples(t, r, err); n != 1000 {
			t.Errorf("%v: %d samples, want 1000", args, n)
		}
	}
}

// TestRecordUser records a process of another user that exists already, and expects no samples of root's processes.
func TestRecordUser(t *testing.T) {
	const user = 12345
	roots := calls(t, 50, 0)
	waiting := exec.Command(program.Program{Body: program.GetPPID, Times: 100, Wait: true}.Write(t))
	if err := os.Chmod(filepath.Dir(filepath.Dir(waiting.Path)), 0o755); err != nil { // the directory of the test
		t.Fatal(err)
	}
	waiting.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	cmd := recordCommand(t, "-N", "-o", "perf.data", "-u", fmt.Sprint(user), "-e", getppidEvent, "-c", "1", "sh", "-c", "echo; read line; "+roots)
	var files []*os.File // the pipes let the command end the program's wait, and wait for its end
	for _, between := range []struct {
		in  *io.Reader
		out *io.Writer
	}{{&waiting.Stdin, &cmd.Stdout}, {&cmd.Stdin, &waiting.Stdout}} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		*between.in, *between.out = r, w
		files = append(files, r, w)
	}
	if err := waiting.Start(); err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	err := cmd.Start()
	for _, f := range files {
		f.Close()
	}
	if err = errors.Join(err, waiting.Wait(), cmd.Wait()); err != nil {
		t.Fatal(err, stderr.String())
	}
	if n := samplesOf(t, filepath.Join(cmd.Dir, "perf.data")); n != 100 {
		t.Errorf("%d samples, want 100; %s", n, stderr.String())
	}
}

// TestRecordSignals expects that a signal leaves a complete file and kills bperf. SIGKILL leaves what was written by then.
func TestRecordSignals(t *testing.T) {
	require.AnyArch(t)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGKILL} {
		cmd := recordCommand(t, "-o", "perf.data", "-a", "-e", "cpu-clock", "-F", "200", "--no-buffering")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(cmd.Dir, "perf.data")
		eventually(t, "the recording has samples", func() bool { return hasSamples(file) })
		cmd.Process.Signal(sig)
		cmd.Wait()
		status := cmd.ProcessState.Sys().(syscall.WaitStatus)
		if !status.Signaled() || status.Signal() != sig {
			t.Errorf("%v: ended with %v; %s", sig, status, stderr.String())
		}
		if n := samplesOf(t, file); n == 0 {
			t.Errorf("%v: no samples", sig)
		}
		r, err := perfdata.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range r.Records() {
			if err != nil {
				t.Fatal(err)
			}
		}
		if r.Features().Text(perfdata.FeatureHostname) == "" {
			t.Errorf("%v: no features", sig)
		}
		r.Close()
	}
}

// TestNoHangup runs as if under nohup(1): a hangup ends neither bperf nor its command.
func TestNoHangup(t *testing.T) {
	require.AnyArch(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{"stat", "record -o /dev/null", "profile"} {
		command := append(strings.Fields(args), "-e", "cpu-clock:u", "sh", "-c", "kill -HUP $PPID $$; exit 3")
		cmd := exec.Command("sh", append([]string{"-c", `trap "" HUP; exec "$@"`, "sh", self}, command...)...)
		cmd.Env = bperf().Env
		if got := run(t, cmd); got.status != 3 {
			t.Errorf("%s: status %d, want that of the command; %s", args, got.status, got.stderr)
		}
	}
}

// TestRecordOffCPUKilled expects that a killed bperf leaves no BPF program behind, and a file with the blocked times that ended before.
func TestRecordOffCPUKilled(t *testing.T) {
	require.AnyArch(t)
	require.Root(t)
	file := filepath.Join(t.TempDir(), "perf.data")
	cmd := bperf("record", "--off-cpu=0", "-n", "-e", "cpu-clock", "-o", file, "sh", "-c", "while :; do sleep 0.1; done")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	killed := false
	kill := func() {
		if !killed {
			syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			killed = true
		}
	}
	defer kill()
	eventually(t, "the recording has samples", func() bool { return hasSamples(file) })
	mine := linksOf(cmd.Process.Pid)
	kill()
	cmd.Wait()
	if len(mine) < 3 { // two of them exist only where the kernel has modules
		t.Errorf("%d links of BPF programs, want 3 or more", len(mine))
	}
	for id := range mine {
		eventually(t, fmt.Sprintf("link %d is gone", id), func() bool {
			l, err := link.NewFromID(id)
			if err == nil {
				l.Close()
			}
			return errors.Is(err, os.ErrNotExist)
		})
	}
	if samplesOf(t, file) == 0 {
		t.Error("the file has no samples")
	}
}

// hasSamples reports whether a file has samples, even while it is being written.
func hasSamples(name string) bool {
	r, err := perfdata.Open(name)
	if err != nil {
		return false
	}
	defer r.Close()
	for rec := range r.Records() {
		if _, ok := rec.Value.(*perfdata.Sample); ok {
			return true
		}
	}
	return false
}

// linksOf returns the BPF links that a process holds.
func linksOf(pid int) map[link.ID]bool {
	links := make(map[link.ID]bool)
	fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fdinfo/*", pid))
	for _, name := range fds {
		text, _ := os.ReadFile(name)
		if _, after, ok := strings.Cut(string(text), "link_id:\t"); ok {
			var id link.ID
			fmt.Sscan(after, &id)
			links[id] = true
		}
	}
	return links
}

// TestRecordControl enables and disables through a FIFO.
func TestRecordControl(t *testing.T) {
	dir := t.TempDir()
	ctl, ack := filepath.Join(dir, "ctl"), filepath.Join(dir, "ack")
	for _, name := range []string{ctl, ack} {
		if err := syscall.Mkfifo(name, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	require.Tracefs(t)
	path := program.Program{Body: program.GetPPID, Times: 100}.WriteAs(t, "controlled")
	script := fmt.Sprintf(`%[1]s; say() { echo $1 > %[2]s; read answer < %[3]s; }
		say enable; %[1]s; %[1]s; say disable; %[1]s`, path, ctl, ack)
	cmd := recordCommand(t, "-o", "perf.data", "-D", "-1", "--control", "fifo:"+ctl+","+ack, "-e", getppidEvent, "--filter", `comm == "controlled"`, "-a",
		"sh", "-c", script)
	got := run(t, cmd)
	if n := samplesOf(t, filepath.Join(cmd.Dir, "perf.data")); got.status != 0 || n != 200 {
		t.Errorf("status %d, %d samples, want 200; %s", got.status, n, got.stderr)
	}
}

// distributionPerf returns the path of the machine's own perf, which reads bperf's files.
func distributionPerf(t *testing.T) string {
	t.Helper()
	if require.IsGuest() {
		t.Skip("needs a perf that knows tracepoints, and that of the guests is built without")
	}
	return require.Perf(t)
}

// perfReads returns what perf prints about a recording.
func perfReads(t *testing.T, dir string, stdin []byte, args ...string) string {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, distributionPerf(t), args...)
	cmd.Dir, cmd.WaitDelay = dir, time.Minute
	cmd.Stdin = bytes.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("perf %s: %v; %s", strings.Join(args, " "), err, stderr.String())
	}
	return string(out)
}

// TestPerfReadsRecordings compares the number of samples that perf finds with the real number.
func TestPerfReadsRecordings(t *testing.T) {
	distributionPerf(t)
	path := calls(t, 2000, 0)
	for _, args := range [][]string{
		{},
		{"-g"},
		{"--call-graph", "dwarf,512", "-m", "8M"},
		{"-e", "page-faults"},
		{"-s", "-d", "-T", "--sample-cpu", "--namespaces", "--all-cgroups", "--switch-events"},
		{"-k", "mono"},
		{"--per-thread"},
		{"-a", "--filter", `comm == "program"`},
		{"-D", "1"},
	} {
		cmd := recordCommand(t, append(append([]string{"-o", "perf.data", "-e", getppidEvent}, args...), path)...)
		got := run(t, cmd)
		if got.status != 0 {
			t.Errorf("%v: status %d, %s", args, got.status, got.stderr)
			continue
		}
		want := samplesOf(t, filepath.Join(cmd.Dir, "perf.data"))
		if lines := strings.Count(perfReads(t, cmd.Dir, nil, "script", "-F", "event", "-i", "perf.data"), ":sys_enter_getppid"); lines != 2000 && len(args) < 2 {
			t.Errorf("%v: perf script finds %d samples, there are %d", args, lines, want)
		}
		if n := perfSamples(t, cmd.Dir); n != want {
			t.Errorf("%v: perf report finds %d samples, there are %d", args, n, want)
		}
	}
}

// perfSamples returns the number of samples in the output of perf report --stats.
func perfSamples(t *testing.T, dir string) (n int) {
	t.Helper()
	for line := range strings.Lines(perfReads(t, dir, nil, "report", "--stats", "-i", "perf.data")) {
		if name, value, ok := strings.Cut(line, " events:"); ok && strings.TrimSpace(name) == "SAMPLE" {
			fmt.Sscan(value, &n)
			return n
		}
	}
	return 0
}

// TestCallGraphs gives -g together with --call-graph, as cargo-flamegraph does.
func TestCallGraphs(t *testing.T) {
	for callGraph, want := range map[string]record.Callchain{"": record.CallchainFP, "fp": record.CallchainFP, "bpf": record.CallchainBPF,
		"dwarf": record.CallchainDWARF} {
		var cfg record.Config
		o := recordOptions{framePointers: true, callGraph: callGraph}
		if err := o.setCallchain(&cfg); err != nil || cfg.Callchain != want {
			t.Errorf("-g --call-graph %s: %v, %v", callGraph, cfg.Callchain, err)
		}
	}
}
