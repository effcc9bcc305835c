package script

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/internal/replay"
	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/require"
	"github.com/bperf/bperf/test/upstream/packaged"
)

// perfVersion is the perf version to compare with: later versions print some things differently.
const perfVersion = "perf version 6.1."

// perfPath is the path of the machine's perf. Without perf the test is skipped.
func perfPath(t *testing.T) string {
	t.Helper()
	return require.Perf(t)
}

// perf runs the machine's perf.
func perf(t *testing.T, args ...string) []byte {
	t.Helper()
	return runPerf(t, perfPath(t), args...)
}

func runPerf(t *testing.T, path string, args ...string) []byte {
	t.Helper()
	stdout, _ := runPerfWithErrors(t, path, args...)
	return stdout
}

func runPerfWithErrors(t *testing.T, path string, args ...string) (stdout []byte, stderr string) {
	t.Helper()
	if args[0] == "record" {
		require.PlainNames(t)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.WaitDelay = time.Minute
	cmd.Dir = t.TempDir() // perf.data.old and the like
	cmd.Env = append(os.Environ(), "HOME="+cmd.Dir)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Logf("perf %s: %v\n%s", strings.Join(args, " "), err, errs.Bytes())
		var exit *exec.ExitError
		if !errors.As(err, &exit) || args[0] != "script" {
			t.FailNow()
		}
		if exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGSEGV {
			errs.WriteString(crashed)
		}
	}
	return out.Bytes(), errs.String()
}

// crashed is in the errors of a perf that died of SIGSEGV: that of Debian testing does so on some recordings of a whole machine.
const crashed = "\nperf crashed"

func requirePerf(t *testing.T) {
	t.Helper()
	if version := string(perf(t, "version")); !strings.HasPrefix(version, perfVersion) {
		t.Skipf("%s prints other things than %s*", strings.TrimSpace(version), perfVersion)
	}
}

// record makes a recording with perf.
func record(t *testing.T, args ...string) string {
	t.Helper()
	return recordWith(t, perfPath(t), args...)
}

// recordWith records without copying the files that perf has seen, which takes as long as the recording.
func recordWith(t *testing.T, path string, args ...string) string {
	t.Helper()
	require.Root(t)
	file := filepath.Join(t.TempDir(), "perf.data")
	runPerf(t, path, append([]string{"record", "-q", "-N", "-o", file}, args...)...)
	return file
}

// recordWhole records as record does, again as long as perf stops in the middle of its own recording (packaged.GaveUp).
func recordWhole(t *testing.T, args ...string) string {
	t.Helper()
	for range 20 {
		file := record(t, args...)
		if _, errs := runPerfWithErrors(t, perfPath(t), "script", "--no-inline", "-F", "comm", "-i", file); !packaged.GaveUp(errs) {
			return file
		}
	}
	t.Fatal("perf stopped at a BPF program's record in each of 20 recordings: too many programs are loaded beside the test")
	return ""
}

// withoutPrograms is an option of perf record. Without it, perf record waits up to a second at its end for a thread that reads BPF
// programs.
const withoutPrograms = "--no-bpf-event"

// theLoad are the processes of work and of other tests here, and the idle CPUs.
var theLoad = regexp.MustCompile(`^ *(sh|ls|cat|swapper|script\.test) `)

// ofTheLoad keeps only the samples of the load's processes. Other processes can do anything, for example remove their files before both
// programs have read them. It also drops samples in the vDSO, because no perf unwinds from it without a copy in its cache.
func ofTheLoad(theirs, ours []byte) (theirsOfIt, oursOfIt []byte) {
	all, same := samples(theirs), samples(ours)
	compared := func(sample []byte) bool { return theLoad.Match(sample) && !bytes.Contains(sample, []byte("([vdso])")) }
	for i, sample := range same {
		if i >= len(all) || compared(sample) {
			oursOfIt = append(oursOfIt, sample...)
		}
	}
	for i, sample := range all {
		if i >= len(same) || compared(same[i]) {
			theirsOfIt = append(theirsOfIt, sample...)
		}
	}
	return theirsOfIt, oursOfIt
}

// samples returns the lines of each sample. The first line is not indented by a tab.
func samples(text []byte) (all [][]byte) {
	for line := range bytes.Lines(text) {
		if len(all) == 0 || line[0] != '\t' && line[0] != '\n' {
			all = append(all, nil)
		}
		all[len(all)-1] = append(all[len(all)-1], line...)
	}
	return all
}

// until is a command that ends when a process has used 300 ms more CPU time.
func until(pid int) []string {
	const script = `used() { set -- $(cat /proc/$0/stat); echo $((${14} + ${15})); }; from=$(used); until [ $(used) -ge $((from + 30)) ]; do sleep 0.01; done`
	return []string{"sh", "-c", script, strconv.Itoa(pid)}
}

// comparePackaged compares the output of Debian testing's perf with ours, except for known differences.
func comparePackaged(t *testing.T, file string, got []byte, args ...string) {
	t.Helper()
	t.Run("packaged", func(t *testing.T) {
		theirs, ours := ofNewest(t, file, got, args...)
		compare(t, likeOld(theirs), likeOld(ours))
	})
}

// ofNewest returns the output of Debian testing's perf for a recording, and ours. If perf gives up (packaged.GaveUp) or crashes, it returns as
// many lines of ours as perf printed.
func ofNewest(t *testing.T, file string, got []byte, args ...string) (theirs, ours []byte) {
	t.Helper()
	theirs, errs := runPerfWithErrors(t, require.NewestPerf(t), append([]string{"script", "--no-inline", "-f", "-i", file}, args...)...)
	if packaged.GaveUp(errs) || strings.Contains(errs, crashed) {
		theirs = theirs[:bytes.LastIndexByte(theirs, '\n')+1]
		all := slices.Collect(bytes.Lines(got))
		got = bytes.Join(all[:min(bytes.Count(theirs, []byte("\n")), len(all))], nil)
	}
	return theirs, got
}

// compareLoad compares the samples of the load with the output of the machine's perf.
func compareLoad(t *testing.T, file string, got []byte, args ...string) {
	t.Helper()
	theirs, ours := ofTheLoad(perf(t, append([]string{"script", "--no-inline", "-i", file}, args...)...), got)
	compare(t, theirs, ours)
}

// compareLoadPackaged compares the samples of the load with the output of Debian testing's perf.
func compareLoadPackaged(t *testing.T, file string, got []byte, args ...string) {
	t.Helper()
	t.Run("packaged", func(t *testing.T) {
		theirs, ours := ofTheLoad(ofNewest(t, file, got, args...))
		compare(t, likeOld(theirs), likeOld(ours))
	})
}

// What perf 7.2 prints differently from 6.1: the columns of thread IDs are wider, user frames have their address in memory instead of that
// in the file, and the code before the entries of a procedure linkage table has a name.
var (
	columns    = regexp.MustCompile(`(?m)^ +| +`)
	userFrames = regexp.MustCompile(`(?m)^\t *[0-9a-f]{1,12}( |$)`)
	pltHeaders = regexp.MustCompile(`([\t ])\.plt\+0x[0-9a-f]+ `)
)

func likeOld(text []byte) []byte {
	text = pltHeaders.ReplaceAll(userFrames.ReplaceAll(text, []byte("\t")), []byte("${1}[unknown] "))
	return columns.ReplaceAllFunc(text, func(blanks []byte) []byte { return blanks[:1] })
}

func printed(t *testing.T, file string, o Options, ro replay.Options) []byte {
	t.Helper()
	reader, err := perfdata.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	var out bytes.Buffer
	if _, err := Print(&out, reader, o, ro); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// unlike are lines in which perf 6.1 is known to err: it has no names for PLT entries in sections other than .plt, and it treats a return
// address of 0 as a caller. notCaller are lines in which perf 6.1 treats the function after a call that does not return as the caller.
var (
	unlike    = regexp.MustCompile(`@plt|^\tffffffffffffffff \[unknown\]`)
	notCaller = regexp.MustCompile(`^\t *([0-9a-f]+ )?\S+\+0x0( |$)`)
	noCaller  = regexp.MustCompile(`^\tffffffffffffffff \[unknown\]`)
)

// compare compares both outputs line by line. perf gives up at kernel records that it cannot parse; the rest is then only in our output.
func compare(t *testing.T, want, got []byte) {
	t.Helper()
	ours, theirs := bytes.Split(got, []byte("\n")), bytes.Split(want, []byte("\n"))
	differ, compared := 0, 0
	for i, j := 0, 0; j < len(theirs); {
		if noCaller.Match(theirs[j]) && (i >= len(ours) || !bytes.HasPrefix(ours[i], theirs[j][:18])) {
			j++ // not a real caller
			continue
		}
		if i >= len(ours) {
			t.Fatalf("perf prints %d lines, of which %d are missing, from this on:\n%s", len(theirs), len(theirs)-j, theirs[j])
		}
		if !bytes.Equal(ours[i], theirs[j]) && !unlike.Match(ours[i]) && !unlike.Match(theirs[j]) && !notCaller.Match(theirs[j]) && !knowsMore(ours[i], theirs[j]) {
			if differ++; differ <= 10 {
				t.Errorf("line %d:\nperf %q\nours %q", j+1, theirs[j], ours[i])
			}
		}
		compared++
		i, j = i+1, j+1
	}
	t.Logf("%d lines, %d differ", compared, differ)
	if compared < 2 {
		t.Error("there is nothing to compare")
	}
}

// knowsMore reports whether perf only lacks a symbol: of a Go program without a symbol table; of the vDSO, whose copy in perf's cache does
// not always have symbols; or, for 7.2, of an ending thread, which it shows without a name and mappings.
func knowsMore(ours, theirs []byte) bool {
	if ended := endedThread.FindSubmatch(theirs); ended != nil {
		return bytes.HasSuffix(ours, ended[1])
	}
	before, after, unknown := bytes.Cut(theirs, []byte("[unknown]"))
	return unknown && bytes.HasPrefix(ours, before) && (bytes.HasSuffix(ours, after) || string(after) == " ([unknown])")
}

var endedThread = regexp.MustCompile(`^ *:\d+( .*)$`)

const work = `ls -lR /usr/bin /usr/share/doc >/dev/null; cat /etc/* >/dev/null 2>&1; true`

// TestPrintsWhatPerfPrints records with perf and prints the recordings with both.
func TestPrintsWhatPerfPrints(t *testing.T) {
	requirePerf(t)
	tests := []struct {
		name   string
		record []string
	}{
		{"system", []string{"-a", "-g", "-e", "cpu-clock", "-F", "999", "--", "sh", "-c", work}},
		{"no callchains", []string{"-e", "cpu-clock", "--", "sh", "-c", work}},
		{"compressed", []string{"-z", "-a", "-g", "-e", "cpu-clock", "-F", "999", "--", "sh", "-c", work}},
		{"group", []string{"-g", "-e", "{cpu-clock,task-clock,page-faults}", "--", "sh", "-c", work}},
		{"addresses", []string{"-d", "-e", "page-faults", "-c", "1", "--", "sh", "-c", work}},
		{"tracepoints", []string{"-a", "-e", "sched:sched_switch,syscalls:sys_enter_openat,sched:sched_process_exec,cpu-clock", "--", "sh", "-c", work}},
		{"tracepoints with callchains", []string{"-g", "-e", "syscalls:sys_exit_openat,kmem:kmem_cache_free", "--", "ls", "-l", "/usr/bin"}},
		{"dwarf", []string{"--call-graph", "dwarf,4096", "-e", "cpu-clock", "-F", "499", "--", "ls", "-lR", "/usr/share/doc"}},
		{"registers", []string{"--user-regs=ip,sp,r8,r12", "-e", "cpu-clock", "-F", "499", "--", "ls", "-lR", "/usr/share/doc"}},
		{"cgroups", []string{"-a", "--all-cgroups", "-e", "cpu-clock", "-F", "499", "--", "sh", "-c", work}},
		{"wall clock", []string{"-k", "CLOCK_MONOTONIC", "-e", "cpu-clock", "-F", "499", "--", "sh", "-c", work}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if strings.HasPrefix(tt.name, "tracepoints") {
				require.Tracefs(t)
			}
			if tt.name != "system" {
				tt.record = append([]string{withoutPrograms}, tt.record...)
			}
			file := recordWhole(t, tt.record...)
			got := printed(t, file, Options{Fields: NewSelection()}, replay.Options{NoInline: true})
			if tt.name != "dwarf" { // perf 6.1 prints __quick_exit_funcs, which is data, as a caller of exit handlers
				compareLoad(t, file, got)
			}
			compareLoadPackaged(t, file, got)
		})
	}
}

// TestPrintsPipesAsPerfDoes prints the output of perf record -o -.
func TestPrintsPipesAsPerfDoes(t *testing.T) {
	requirePerf(t)
	require.Root(t)
	file := filepath.Join(t.TempDir(), "pipe")
	stream := perf(t, "record", "-q", withoutPrograms, "-a", "-g", "-e", "cpu-clock", "-F", "999", "-o", "-", "--", "sh", "-c", work)
	if err := os.WriteFile(file, stream, 0o600); err != nil {
		t.Fatal(err)
	}
	got := printed(t, file, Options{Fields: NewSelection()}, replay.Options{NoInline: true})
	compareLoad(t, file, got)
	compareLoadPackaged(t, file, got)
}

// TestPrintsRecordingsOfPackagedPerf prints recordings of a newer perf.
func TestPrintsRecordingsOfPackagedPerf(t *testing.T) {
	path := require.NewestPerf(t)
	for _, tt := range []struct {
		name   string
		record []string
	}{
		{"system", []string{"-a", "-g", "-e", "cpu-clock", "-F", "999", "--", "sh", "-c", work}},
		{"compressed", []string{"-z", "-a", "-g", "-e", "cpu-clock", "-F", "999", "--", "sh", "-c", work}},
		{"group", []string{"-g", "-e", "{cpu-clock,task-clock,page-faults}", "--", "sh", "-c", work}},
		{"tracepoints", []string{"-a", "-e", "sched:sched_switch,syscalls:sys_enter_openat,cpu-clock", "--", "sh", "-c", work}},
		{"dwarf", []string{"--call-graph", "dwarf,4096", "-e", "cpu-clock", "-F", "499", "--", "ls", "-lR", "/usr/share/doc"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.name == "tracepoints" {
				require.Tracefs(t)
			}
			if tt.name != "system" {
				tt.record = append([]string{withoutPrograms}, tt.record...)
			}
			file := recordWith(t, path, tt.record...)
			compareLoadPackaged(t, file, printed(t, file, Options{Fields: NewSelection()}, replay.Options{NoInline: true}))
		})
	}
	t.Run("pipe", func(t *testing.T) {
		t.Parallel()
		require.Root(t)
		file := filepath.Join(t.TempDir(), "pipe")
		stream := runPerf(t, path, "record", "-q", withoutPrograms, "-a", "-g", "-e", "cpu-clock", "-F", "999", "-o", "-", "--", "sh", "-c", work)
		if err := os.WriteFile(file, stream, 0o600); err != nil {
			t.Fatal(err)
		}
		compareLoadPackaged(t, file, printed(t, file, Options{Fields: NewSelection()}, replay.Options{NoInline: true}))
	})
}

// lostSamples are lines that perf never prints. They occur on a busy machine.
var lostSamples = regexp.MustCompile(`(?m)^.*: PERF_RECORD_LOST_SAMPLES lost [0-9]+\n`)

// TestPrintsFieldsAsPerfDoes prints one recording with many selections of fields.
func TestPrintsFieldsAsPerfDoes(t *testing.T) {
	requirePerf(t)
	all := Records{Mmap: true, Task: true, BPF: true, Switch: true, Namespace: true, Cgroup: true, Lost: true}
	file := record(t, "-a", "-g", "-d", "--switch-events", "--namespaces", "--all-cgroups", "-k", "CLOCK_MONOTONIC", "-e", "cpu-clock,page-faults", "-F", "999",
		"--", "taskset", "-c", "0", "sh", "-c", work)
	tests := []struct {
		name string
		args []string
		o    Options
		ro   replay.Options

		packaged bool
	}{
		{name: "fields", packaged: true, args: []string{"-F", "comm,tid,pid,time,cpu,event,ip,sym,dso,symoff,period,misc"}},
		{name: "few", packaged: true, args: []string{"-F", "comm,ip"}},
		{name: "added", packaged: true, args: []string{"-F", "+pid,+misc,+addr,-cpu"}},
		{name: "of a kind", args: []string{"-F", "sw:comm,time,ip,sym,symoff"}},
		{name: "time of day", packaged: true, args: []string{"-F", "+tod"}},
		{name: "no chains", args: []string{"-G"}, o: Options{NoChains: true}},
		{name: "nanoseconds", args: []string{"--ns"}, o: Options{Nanos: true}},
		{name: "relative", args: []string{"--reltime"}, o: Options{Relative: true}},
		{name: "delta", args: []string{"--deltatime"}, o: Options{Delta: true}},
		{name: "cpu", args: []string{"-C", "0"}, ro: replay.Options{Filter: replay.Filter{CPUs: []int{0}}}},
		{name: "comms", args: []string{"--comms", "ls,cat"}, ro: replay.Options{Filter: replay.Filter{Comms: []string{"ls", "cat"}}}},
		{name: "short stacks", args: []string{"--max-stack", "3"}, ro: replay.Options{MaxStack: 3}},
		{name: "records", packaged: true, args: []string{"--show-mmap-events", "--show-task-events", "--show-bpf-events", "--show-switch-events", "--show-namespace-events",
			"--show-cgroup-events", "--show-lost-events"}, o: Options{Records: all}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.o.Fields, tt.ro.NoInline = NewSelection(), true
			if tt.args[0] == "-F" {
				if err := tt.o.Fields.Parse(tt.args[1]); err != nil {
					t.Fatal(err)
				}
			}
			got := lostSamples.ReplaceAll(printed(t, file, tt.o, tt.ro), nil)
			compareLoad(t, file, got, tt.args...)
			if tt.packaged {
				compareLoadPackaged(t, file, got, tt.args...)
			}
		})
	}
}

// TestPrintsBPFProgramsAsPerfDoes has samples in a BPF program.
func TestPrintsBPFProgramsAsPerfDoes(t *testing.T) {
	requirePerf(t)
	require.Root(t)
	loop := asm.Instructions{asm.Mov.Imm(asm.R6, 5000), asm.Mov.Imm(asm.R0, 0).WithSymbol("loop"), asm.Sub.Imm(asm.R6, 1),
		asm.JNE.Imm(asm.R6, 0, "loop"), asm.Return()}
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "turns_in_circle", Type: ebpf.SocketFilter, Instructions: loop, License: "GPL"})
	if err != nil {
		t.Fatal(err)
	}
	defer prog.Close()
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread()
		for {
			select {
			case <-done:
				return
			default:
				_, _, _ = prog.Test(make([]byte, 64))
				_, _ = prog.Run(&ebpf.RunOptions{Data: make([]byte, 64), Repeat: 1000})
			}
		}
	}()
	file := recordWhole(t, append([]string{"-a", "-g", "-e", "cpu-clock", "-F", "999", "--"}, until(os.Getpid())...)...)
	close(done)
	<-ended
	got := printed(t, file, Options{Fields: NewSelection(), Records: Records{BPF: true}}, replay.Options{NoInline: true})
	if !regexp.MustCompile(`\tf{8}[0-9a-f]{8} (bpf_prog_[0-9a-f]{16}_turns_in_circle)\+0x[0-9a-f]+ \((bpf_prog_[0-9a-f]{16}_turns_in_circle)\)\n`).Match(got) {
		t.Error("no sample is in the program")
	}
	compareLoad(t, file, got, "--show-bpf-events")
	compareLoadPackaged(t, file, got, "--show-bpf-events")
}

// filesAreThere reports whether this machine has the files that a recording names, with their build IDs.
func filesAreThere(t *testing.T, recording string) bool {
	t.Helper()
	for line := range strings.Lines(string(perf(t, "buildid-list", "-f", "-i", recording))) {
		id, path, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !filepath.IsAbs(path) {
			continue // the kernel's
		}
		if _, err := os.Stat(path); err != nil {
			return false
		}
		if here := strings.TrimSpace(string(perf(t, "buildid-list", "-i", path))); here != id {
			return false
		}
	}
	return true
}

// TestPrintsFixturesAsPerfDoes prints the recordings in package perfdata, and those of perf 6.1 with counts. perf 6.1 cannot read those of
// perf 7.2, and neither can perf 7.2.
func TestPrintsFixturesAsPerfDoes(t *testing.T) {
	requirePerf(t)
	files, err := filepath.Glob("../../perfdata/testdata/*.data")
	if err != nil || len(files) == 0 {
		t.Fatal("there are none", err)
	}
	counts, err := filepath.Glob("../count/recorded/testdata/6-*.data")
	if err != nil || len(counts) == 0 {
		t.Fatal("there are none with counts", err)
	}
	for _, file := range append(files, counts...) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			path, err := filepath.Abs(file)
			if err != nil {
				t.Fatal(err)
			}
			args, o := []string{"script", "--no-inline", "-f", "-i", path}, Options{Fields: NewSelection()}
			if !filesAreThere(t, path) {
				args, o.NoChains = append(args, "-G"), true // perf and bperf would both unwind with other files' tables, and differently
			}
			want := perf(t, args...)
			// Without build IDs in the recording, symbols come from other files, if any.
			got := printed(t, path, o, replay.Options{NoInline: true})
			if diff := cmp.Diff(heads(want), heads(got)); diff != "" {
				t.Errorf("(-perf +ours):\n%s", diff)
			}
			t.Run("packaged", func(t *testing.T) {
				if bytes.HasPrefix(want, []byte("CPU   THREAD ")) {
					t.Skip("perf 7.2 reads counts only from pipes")
				}
				theirs := runPerf(t, require.NewestPerf(t), args...)
				if diff := cmp.Diff(heads(likeOld(theirs)), heads(likeOld(got))); diff != "" {
					t.Errorf("(-perf +ours):\n%s", diff)
				}
			})
		})
	}
}

// heads returns the lines of a text without symbols and without false callers.
func heads(text []byte) []string {
	var lines []string
	symbol := regexp.MustCompile(`[ \t][^ ]+ \([^()]*( \(deleted\))?\)$`)
	for line := range strings.Lines(string(text)) {
		if unlike.MatchString(line) {
			continue
		}
		lines = append(lines, symbol.ReplaceAllString(strings.TrimSuffix(line, "\n"), ""))
	}
	return lines
}
