package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/test/require"
)

// keep runs a session that counts nothing until the test ends. The test's sessions reuse what it made, which would be their slowest step.
func (p place) keep(t *testing.T) {
	t.Helper()
	cmd := p.bperf("stat", "--bpf-counters", "-e", "dummy", "-p", strconv.Itoa(os.Getpid()), "sh", "-c", "echo counting; exec cat")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := stdout.Read(make([]byte, 64)); err != nil {
		t.Fatalf("%v: %v", cmd, err)
	}
	t.Cleanup(func() { stdin.Close(); cmd.Wait() })
}

// answerer starts a process that sleeps until it is asked, and writes a program that asks it and waits for the answer.
func answerer(t *testing.T) (pid int, ask string) {
	t.Helper()
	dir := t.TempDir()
	questions, answers, ask := filepath.Join(dir, "questions"), filepath.Join(dir, "answers"), filepath.Join(dir, "ask")
	for _, f := range []string{questions, answers} {
		if err := syscall.Mkfifo(f, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(ask, []byte("#!/bin/sh\necho ? >"+questions+"; read answer <"+answers+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", "while read question; do echo !; done 0<>$0 1<>$1", questions, answers)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd.Process.Pid, ask
}

// cgroups creates cgroups that the test's own processes may join, and returns their directories.
func cgroups(t *testing.T, n int) (dirs []string) {
	t.Helper()
	root, err := target.Spec{System: true, Cgroups: []string{"/"}}.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		dir, err := os.MkdirTemp(root.Cgroups[0].Path, "bperf-test-cli-")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			var err error
			eventually(t, "those in "+dir+" have ended", func() bool {
				err = os.Remove(dir)
				return !errors.Is(err, syscall.EBUSY)
			})
			if err != nil {
				t.Error(err)
			}
		})
		dirs = append(dirs, dir)
	}
	return dirs
}

// TestStatShared runs sessions beside one that exists all the time.
func TestStatShared(t *testing.T) {
	p := newPlace(t)
	p.keep(t)
	for name, test := range map[string]func(*testing.T, place){
		"Prints": testSharedPrints, "Counts": testSharedCounts, "Targets": testSharedTargets, "Control": testSharedControl, "Cgroups": testSharedCgroups,
	} {
		t.Run(name, func(t *testing.T) { test(t, p) })
	}
}

// testSharedPrints compares the output of shared counters with that of direct ones, for all forms and targets.
func testSharedPrints(t *testing.T, p place) {
	dirs := cgroups(t, 2)
	pid, ask := answerer(t)
	if err := os.WriteFile(filepath.Join(dirs[0], "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
		t.Fatal(err)
	}
	const four = " -e cpu-clock,task-clock,page-faults,context-switches"
	targets := []string{
		"-a -A -x," + four + " sleep 0.02",
		"-x," + four + " true",
		"-i -x," + four + " true",
		"-r 2 --table" + four + " true",
		"-p PID -x," + four + " ask",
		"--per-thread -t PID" + four + " ask",
		"-a --for-each-cgroup A,B -x," + four + " ask",
		"-a -e cpu-clock -G A -e page-faults -x, ask",
		"-a -e {cpu-clock,page-faults},{task-clock,context-switches} -x, sleep 0.02",
		"true",
		"-D 1 -a -x," + four + " sleep 0.05",
		"-I 10 --interval-count 2 --summary -a -j" + four,
	}
	// Other forms of output for these targets do not depend on the kernel.
	forms := []string{
		"-a -x," + four + " sleep 0.02",
		"-x," + four + " --timeout 20",
		"-C 0 -x," + four + " sleep 0.02",
		"-a -j" + four + " sleep 0.02",
		"-a -A -j" + four + " sleep 0.02",
		"-C 0 -A" + four + " sleep 0.02",
		"-a --per-core -x," + four + " sleep 0.02",
		"-a --per-die -x," + four + " sleep 0.02",
		"-a --per-socket -x," + four + " sleep 0.02",
		"-a --per-node -j" + four + " sleep 0.02",
		four + " true",
		"-j" + four + " true",
		"-r 3 -x," + four + " true",
		"--timeout 60000 -p PID" + four + " ask",
		"-t PID -j" + four + " ask",
		"-i -t PID -x," + four + " ask",
		"--per-thread -p PID -x," + four + " ask",
		"-a --for-each-cgroup A,B -j" + four + " ask",
		"-a --for-each-cgroup A" + four + " ask",
		"-a -A --for-each-cgroup B -x," + four + " ask",
		"-a -e cpu-clock,page-faults -G A,B -x, ask",
		"-p PID -e {cpu-clock,page-faults}:u -j ask",
		"-a sleep 0.02",
		"-p PID ask",
		"-I 10 --interval-count 2 -C 0 -x," + four,
		"-I 10 --interval-count 1 -a -A" + four,
		"--timeout 20 -a -j" + four,
		"-a -M CPUs_utilized,page_faults_per_second -x, sleep 0.02",
		"-a -M CPUs_utilized --metric-only sleep 0.02",
		"--all-user -a -x, -e page-faults,minor-faults sleep 0.02",
		"--no-merge --no-scale --no-big-num -a -e cpu-clock sleep 0.02",
		"-e duration_time,page-faults -x, true",
	}
	if require.IsGuest() {
		forms = nil
	}
	for _, args := range append(targets, forms...) {
		t.Run(args, func(t *testing.T) {
			args := strings.NewReplacer("PID", strconv.Itoa(pid), " ask", " "+ask, "A,B", dirs[0]+","+dirs[1], "-G A", "-G "+dirs[0], "cgroup A", "cgroup "+dirs[0], "cgroup B", "cgroup "+dirs[1]).Replace(args)
			direct := run(t, p.bperf(append([]string{"stat"}, strings.Fields(args)...)...))
			shared := run(t, p.bperf(append([]string{"stat", "--bpf-counters"}, strings.Fields(args)...)...))
			if diff := cmp.Diff(shape(args, direct), shape(args, shared)); diff != "" || direct.status != shared.status {
				t.Errorf("-direct +shared:\n%s\nwhich was\n%s\nand\n%s", diff, direct.stderr, shared.stderr)
			}
		})
	}
}

// shape returns the output without what changes from run to run: numbers, standard errors, prefixes of units, and the shares of events that
// the PMU had no room for. For the default events, which may lack a count for that reason, it returns only the names.
func shape(args string, r result) string {
	text := notShown.ReplaceAllString(r.stderr, "")
	if !strings.Contains(args, "-e ") && !strings.Contains(args, "-M ") {
		var names []string
		for _, m := range defaultEvent.FindAllStringSubmatch(text, -1) {
			names = append(names, m[1])
		}
		return strings.Join(names, "\n")
	}
	for _, p := range []struct{ pattern, with string }{
		{`\b[0-9]{1,3}(,[0-9]{3})+\b`, "n"}, // not for CSV
		{`[0-9]+(\.[0-9]+)?`, "n"},
		{`"variance" : n, |\( *\+- *n% *\)|\(n%\)|\([-+]n\) #+`, ""},
		{`,n%,`, ",,"},
		{`\b[KMG]/sec`, "/sec"},
		{`[# ]+`, " "},
		{` \n`, "\n"},
	} {
		if p.pattern[0] == '\\' && strings.Contains(args, "-x,") {
			continue
		}
		text = regexp.MustCompile(p.pattern).ReplaceAllString(text, p.with)
	}
	return text
}

var (
	defaultEvent = regexp.MustCompile(`(?m)^ +(?:<not \w+>|[0-9.,]+)(?: msec)? +([a-z-]+)`)
	// The host's kernel may hide processes from BPF programs.
	notShown = regexp.MustCompile(`(?m)^.*shared counters have lost \d+ context switches to tasks that are counted, as the kernel did not show them.*\n`)
)

// expectCount compares a count that must be exact, unless bperf reports that the kernel hides context switches.
func expectCount(t *testing.T, got result, line, want int) {
	t.Helper()
	counts := strings.Split(strings.TrimSpace(notShown.ReplaceAllString(got.stderr, "")), "\n")
	counts = slices.DeleteFunc(counts, func(l string) bool { return strings.HasPrefix(l, "#") })
	if line < 0 {
		line += len(counts)
	}
	n := counted(t, counts[line])
	if n != want && notShown.MatchString(got.stderr) && !require.IsGuest() {
		t.Skipf("counted %d, want %d:\n%s", n, want, got.stderr)
	}
	if n != want {
		t.Errorf("counted %d, want %d:\n%s", n, want, got.stderr)
	}
}

// testSharedCounts counts commands that make a known number of calls.
func testSharedCounts(t *testing.T, p place) {
	call, shell := caller(t)
	for name, tt := range map[string]struct {
		args   []string
		script string
		want   int
	}{
		"inherited":     {nil, "$0; $0 & wait", shell + 2000},
		"not inherited": {[]string{"-i"}, "$0; :", shell},
		"executed":      {[]string{"-i"}, "exec $0", shell + 1000},
		"repeated":      {[]string{"-r", "3"}, "$0; $0 & wait", shell + 2000},
		"summary":       {[]string{"-I", "10", "--interval-count", "1000000", "--summary", "--no-csv-summary"}, "$0; sleep 0.02; $0", shell + 2000},
		"filtered out":  {[]string{"--filter", "common_pid == 0"}, "$0", 0},
		"filtered":      {[]string{"--filter", "common_pid != 0"}, "$0", shell + 1000},
		"group":         {[]string{"-e", "{page-faults," + getppid + "}"}, "$0", shell + 1000},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"stat", "--bpf-counters", "-x,", "-e", getppid}, tt.args...)
			expectCount(t, run(t, p.bperf(append(args, "sh", "-c", tt.script, call)...)), -1, tt.want)
		})
	}
}

// testSharedTargets counts an existing process, which ends.
func testSharedTargets(t *testing.T, p place) {
	call, _ := caller(t)
	for _, flags := range []string{"-p", "-t", "-i -p", "--per-thread -p", "-I 10 --interval-count 1000000 --summary --no-csv-summary -p"} {
		t.Run(flags, func(t *testing.T) {
			shell, stdin := waitingShell(t, "exec $0", call)
			args := append([]string{"stat", "--bpf-counters", "-x,", "-e", getppid, "-D", "1"}, strings.Fields(flags)...)
			got := runNoting(t, p.bperf(append(args, strconv.Itoa(shell.Process.Pid))...), func(note string) {
				if note == "# Events enabled" {
					stdin.Close()
					shell.Wait()
				}
			})
			if flags == "--per-thread -p" { // the place comes first
				_, got.stderr, _ = strings.Cut(strings.ReplaceAll(got.stderr, fmt.Sprintf("sh-%d,", shell.Process.Pid), "\n"), "\n")
			}
			expectCount(t, got, -1, 1000)
		})
	}
}

// testSharedControl starts disabled. Work of the command before Enable must not be counted.
func testSharedControl(t *testing.T, p place) {
	call, _ := caller(t)
	dir := t.TempDir()
	ctl, ack := filepath.Join(dir, "ctl"), filepath.Join(dir, "ack")
	for _, f := range []string{ctl, ack} {
		if err := syscall.Mkfifo(f, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const script = `exec 3<>$1 4<>$2
say() { echo $1 >&3; read answer <&4; [ "$answer" = ack ] || exit 9; }
$0; say ping; $0; say enable; $0; $0; say disable; $0; say enable; $0; say disable`
	got := run(t, p.bperf("stat", "--bpf-counters", "-x,", "-e", getppid, "-D", "-1", "--control", "fifo:"+ctl+","+ack, "sh", "-c", script, call, ctl, ack))
	if got.status != 0 {
		t.Fatalf("status %d, stderr:\n%s", got.status, got.stderr)
	}
	expectCount(t, got, 0, 3000)
}

// testSharedCgroups counts two cgroups that a program moves between, and an event without a cgroup.
func testSharedCgroups(t *testing.T, p place) {
	call, _ := caller(t)
	dirs := cgroups(t, 2)
	a, b := dirs[0], dirs[1]
	const script = "echo 0 >$1/cgroup.procs; $0; echo 0 >$2/cgroup.procs; $0; $0"
	for _, args := range [][]string{
		{"-e", getppid, "--for-each-cgroup", a + "," + b},
		{"-e", getppid + "," + getppid, "-G", a + "," + b},
		{"-e", getppid, "-G", a, "-e", getppid, "-G", b, "-e", "page-faults"},
	} {
		got := run(t, p.bperf(append(append([]string{"stat", "--bpf-counters", "-a", "-x,"}, args...), "sh", "-c", script, call, a, b)...))
		for i, dir := range dirs {
			of := got
			of.stderr = strings.Join(regexp.MustCompile(`(?m)^.*(,`+dir+`,|have lost).*\n`).FindAllString(got.stderr, -1), "")
			expectCount(t, of, 0, 1000*(i+1))
		}
	}
}

// TestStatSharedMessages checks the message and the status for events that cannot be shared, and that no session remains.
func TestStatSharedMessages(t *testing.T) {
	require.AnyArch(t)
	p := newPlace(t)
	require.Tracefs(t)
	pinWrongMap(t, p)
	run(t, p.bperf("stat", "--bpf-counters", "-a", "-e", "dummy", "true")) // makes the directory
	const remedy = ". Counters are shared between sessions of root, or of a user with CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN " +
		"(to find objects of others by ID)\n"
	ran := filepath.Join(t.TempDir(), "ran")
	for name, tt := range map[string]struct {
		args   string
		user   string
		status int
		want   string // all of standard error
	}{
		"an event of the switch": {"--bpf-counters -e sched:sched_switch", "", 1, "Error: no supported events found:\n" +
			"sched:sched_switch: It takes place when shared counts pass from one task to the next, and could be either's. " +
			"Count it without the modifier b and --bpf-counters.\n"},
		"a long filter": {"-e " + getppid + ":b --filter common_pid!=" + strings.Repeat("0", 300), "", 1, "Error: no supported events found:\n" +
			getppid + ":b: Its filter has 312 bytes: shared events have room for 127. Count it without the modifier b and --bpf-counters.\n"},
		"nobody": {"--bpf-counters -e page-faults", "65534", 1,
			"Error: shared counters are found through /sys/fs/bpf/bperf: open /sys/fs/bpf/bperf: permission denied" + remedy},
		"no shared event": {"-e page-faults --bpf-attr-map /sys/fs/bpf/map", "", 22,
			"Error: --bpf-attr-map is for shared counters: add --bpf-counters, or the modifier b to an event\n"},
		"attr map outside bpffs": {"--bpf-counters -e page-faults --bpf-attr-map /proc/map", "", 1,
			"Error: create the attr map /proc/map: /proc is not in a BPF file system (bpffs). To mount one: mount -t bpf bpf /sys/fs/bpf\n"},
		"no directory for the attr map": {"--bpf-counters -e page-faults --bpf-attr-map /no/such/map", "", 1,
			"Error: create the attr map /no/such/map: look at /no/such: no such file or directory\n"},
		"attr map is a directory": {"--bpf-counters -e page-faults --bpf-attr-map /sys/fs/bpf", "", 1,
			"Error: /sys/fs/bpf is not an attr map: it is a directory\n"},
		"incompatible attr map": {"--bpf-counters -e page-faults --bpf-attr-map /sys/fs/bpf/wrong", "", 1,
			"Error: /sys/fs/bpf/wrong is not an attr map: it is a Hash with values of 4 bytes, not a Hash with values of 8 bytes\n"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := p.bperf(append(append([]string{"stat"}, strings.Fields(tt.args)...), "touch", ran)...)
			cmd.Env = append(cmd.Env, userEnv+"="+tt.user)
			got := run(t, cmd)
			if want := (result{status: tt.status, stderr: tt.want}); got != want {
				t.Errorf("%+v\nwant %+v", got, want)
			}
			if _, err := os.Stat(ran); err == nil {
				t.Error("the command was run")
			}
			p.expectNone(t)
		})
	}
}

// expectNone fails if anything of a session remains.
func (p place) expectNone(t *testing.T) {
	t.Helper()
	if got, want := run(t, p.bperf("counters")), (result{stdout: "No counters are shared.\n"}); got != want {
		t.Errorf("afterwards: %+v", got)
	}
	left, err := filepath.Glob(filepath.Join(string(p), "bperf", "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("afterwards there is %q (%v)", left, err)
	}
}

// pinWrongMap pins a map with a layout that is not an attr map's.
func pinWrongMap(t *testing.T, p place) {
	t.Helper()
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := m.Pin(filepath.Join(string(p), "wrong")); err != nil {
		t.Fatal(err)
	}
}

// TestStatSharedBesideOthers counts an event that can be shared beside one that cannot.
func TestStatSharedBesideOthers(t *testing.T) {
	require.AnyArch(t)
	p := newPlace(t)
	require.Tracefs(t)
	got := run(t, p.bperf("stat", "--bpf-counters", "-x,", "-e", "sched:sched_switch,page-faults", "true"))
	if want := regexp.MustCompile(`^<not supported>,,sched:sched_switch,0,0\.00,,\n\d+,,page-faults,\d+,100\.00,,\n$`); !want.MatchString(got.stderr) || got.status != 0 {
		t.Errorf("%+v", got)
	}
	p.expectNone(t)
}

// TestStatSharedWithoutBPFFS uses a directory that is not a bpffs.
func TestStatSharedWithoutBPFFS(t *testing.T) {
	require.Root(t)
	p := place(t.TempDir())
	got := run(t, p.bperf("stat", "--bpf-counters", "-e", "page-faults", "true"))
	want := result{status: 1, stderr: "Error: shared counters are found through bpffs, which is not mounted on /sys/fs/bpf. " +
		"Try: mount -t bpf bpf /sys/fs/bpf\n"}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestStatSharedLead requests counters that upstream perf can follow, and expects counts or the reason why the kernel refuses them.
func TestStatSharedLead(t *testing.T) {
	require.AnyArch(t)
	p := newPlace(t)
	got := run(t, p.bperf("stat", "--bpf-counters", "--bpf-attr-map", "/sys/fs/bpf/attrs", "-x,", "-e", "page-faults", "true"))
	refused := result{status: 1, stderr: "Error: follow an upstream leader: operation not permitted: this kernel refuses fexit programs, without which " +
		"nobody can. Sessions of bperf share counters without them: leave out --bpf-attr-map, or the configuration's stat.bpf-attr-map\n"}
	if !require.IsGuest() && got == refused {
		p.expectNone(t)
		return
	}
	if !regexp.MustCompile(`^\d+,,page-faults,\d+,100\.00,,\n$`).MatchString(got.stderr) || got.status != 0 {
		t.Errorf("%+v", got)
	}
	p.expectNone(t)
}
