package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bperf/bperf/test/program"
	"github.com/bperf/bperf/test/require"
)

// TestStatRefuses checks each invalid combination of options, and each invalid value. The command, which would create a file, must not run.
func TestStatRefuses(t *testing.T) {
	require.AnyArch(t)
	ran := filepath.Join(t.TempDir(), "ran")
	tests := []struct {
		args   string // before the command
		status int
		want   string // in the message
	}{
		{"-x, -j", 22, "-x and -j select different output formats"},
		{"-x, -B", 22, "-B makes no sense with -x"},
		{`-x "`, 22, "quote"},
		{"-o f --log-fd 1", 22, "-o and --log-fd"},
		{"--append", 22, "--append needs a file"},
		{"--log-fd 77", 129, "--log-fd 77: no such descriptor is open"},
		{"--log-fd -1", 22, "the number of an open descriptor, not -1"},
		{"-I 9", 22, "the interval must be at least 10 ms"},
		{"--interval-count 1", 22, "--interval-count needs intervals"},
		{"-I 10 --interval-count 0", 22, "must be at least 1"},
		{"--interval-clear", 22, "--interval-clear needs intervals"},
		{"--timeout 9", 22, "at least 10 ms"},
		{"--timeout 10 -I 10", 22, "--timeout cannot be combined with -I"},
		{"-D -2", 22, "or -1 to start disabled"},
		{"-D -1", 22, "needs --control"},
		{"-r -1", 22, "a number of runs"},
		{"--table", 22, "--table shows the time of each run of -r: add -r N"},
		{"-A", 22, "needs -a or -C"},
		{"--per-cluster", 22, "needs -a or -C"},
		{"-a --per-cache --per-core", 22, "give only one"},
		{"-a --per-cache=L5", 129, "--per-cache=L5: give a level from L1 to L4"},
		{"-a --per-cache=3", 129, "--per-cache=3: give a level from L1 to L4"},
		{"-a --per-cache=", 129, "--per-cache=: give a level from L1 to L4"},
		{"--compat 5", 129, `--compat: bperf prints metrics as perf 6.1 or 7.3 does, not as perf "5"`},
		{"--compat=", 129, `not as perf ""`},
		{"--cputype nosuch", 129, `--cputype: no core PMU is named "nosuch": this machine has `},
		{"--per-core -p 1", 22, "needs -a or -C"},
		{"-a -A --per-core", 22, "give only one"},
		{"--per-thread", 22, "--per-thread needs -p, -t or -a"},
		{"--per-thread -a -C 0", 22, "cannot be combined with -C"},
		{"-e cs -G /", 22, "cgroups are measured on CPUs"},
		{"--for-each-cgroup / -p 1", 22, "cgroups are measured on CPUs"},
		{"-a -e cs -G / --for-each-cgroup /", 22, "cannot be combined"},
		{"-a -e {cs,faults} -G /,x", 22, "in one group and cannot belong to different cgroups"},
		{"-p 1 -t 1", 22, "-p and -t cannot be combined"},
		{"--all-user --all-kernel", 22, "nothing to measure"},
		{"-n -e cs", 22, "-n counts nothing"},

		{"-b 1 -C 0", 22, "-b counts in BPF programs"},
		{"-b 1 -p 1", 22, "-b counts in BPF programs"},
		{"-b 1 -t 1", 22, "-b counts in BPF programs"},
		{"-b 1 -e cs -G /", 22, "-b counts in BPF programs"},
		{"-b 1 --for-each-cgroup /", 22, "-b counts in BPF programs"},
		{"-b 1 -a --per-thread", 22, "-b counts in BPF programs"},
		{"-b 1 --bpf-counters --bpf-attr-map /sys/fs/bpf/map", 22, "-b cannot be combined with --bpf-attr-map"},
		{"-b 1 -n", 22, "it cannot be combined with -b"},
		{"--sum", 22, "--sum adds up the BPF programs of -b"},
		{"--per-func", 22, "to the BPF programs of -b: add -b"},
		{"--bpf-func x", 22, "to the BPF programs of -b: add -b"},
		{"-b 1 --per-func --bpf-func x", 22, "give only one"},
		{"-b 1 --bpf-func [", 129, "--bpf-func [: syntax error in pattern"},
		{"--follow", 22, "to the BPF programs of -b: add -b"},
		{"--calibrate", 22, "to the BPF programs of -b: add -b"},
		{"--histogram", 22, "it needs -b"},
		{"-b 1 --histogram -x,", 22, "--histogram cannot be printed as CSV"},
		{"-b ,", 129, "the list is empty"},
		{"-b 1,,2", 129, "item 2 of the list is empty"},
		{"-b loop", 129, "name:loop"},
		{"-b 0", 129, "a number from 1"},

		{"--no-such-flag", 129, "no-such-flag"},
		{"-I x", 129, "x"},
		{"-e", 129, ""},
		{"-e ,", 129, "event syntax error"},
		{"-e no-such-event", 129, "there is no event no-such-event"},
		{"-e contextswitches", 129, "Did you mean context-switches"},
		{"-e cs:q", 129, "q"},
		{"-M no_such_metric", 129, "no_such_metric"},
		{"-a -G /", 129, "give -e first"},
		{"-a -e cs -G /,/,/", 129, "3 cgroups for 1 events"},
		{"-a -e cs -G / -e cs -G ,/", 129, "2 cgroups for 1 events without a cgroup"},
		{"--filter a==1", 129, "give -e first"},
		{"-e cs --filter a==1", 129, "cs is not a tracepoint"},
		{"-C 3-1", 129, `"3-1" ends before it begins`},
		{"-C x", 129, "CPU list"},
		{"-p 0", 129, `"0" is not a number from 1`},
		{"-p x", 129, "ID list"},
		{"-t 1,,2", 129, `"" is not a number from 1`},
		{"--for-each-cgroup [ -a", 129, "["},
		{"--control 3", 129, "--control takes fd:CTL"},
		{"--control fd:77", 129, "descriptor 77 is not open"},

		{"-p 2147483647", statusBadCombination, "there is no process 2147483647"},
		{"-t 2147483647", statusBadCombination, "there is no thread 2147483647"},
		{"-C 65535", statusBadCombination, "CPU 65535 does not exist"},
		{"-a --for-each-cgroup no/such/group", statusBadCombination, `there is no cgroup "no/such/group"`},
		{"-o /no/such/directory/file", 1, "no such file or directory"},
		{"--pre false", 1, `run "false" around the measurement`},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			args := append([]string{"stat"}, strings.Fields(tt.args)...)
			got := runHere(t, append(args, "touch", ran)...)
			if got.status != tt.status || !strings.Contains(got.stderr, tt.want) {
				t.Errorf("status %d, stderr:\n%s\nwant status %d and %q", got.status, got.stderr, tt.status, tt.want)
			}
			if _, err := os.Stat(ran); err == nil {
				t.Error("the command was run")
			}
		})
	}
}

// TestStatCommand checks the ways in which a command can end.
func TestStatCommand(t *testing.T) {
	require.AnyArch(t)
	require.Root(t)
	tests := []struct {
		name   string
		args   []string
		status int
		want   string // pattern in standard error
	}{
		{"success", []string{"true"}, 0, "Performance counter stats for 'true':"},
		{"failure", []string{"sh", "-c", "exit 7"}, 7, "Performance counter stats for 'sh -c exit 7':"},
		{"a signal", []string{"sh", "-c", "kill -9 $$"}, 137, "seconds time elapsed"},
		{"a time-out", []string{"--timeout", "20", "sleep", "100"}, 0, "seconds time elapsed"},
		{"not found", []string{"no-such-command"}, 1, "Workload failed: No such file or directory"},
		{"not found, stopped", []string{"-i", "no-such-command"}, 1, "Workload failed: No such file or directory"},
		{"not executable", []string{"/etc/passwd"}, 1, "Workload failed: Permission denied"},
		{"nothing counted", []string{"-n", "true"}, 0, "seconds time elapsed"},
		{"stopped", []string{"-i", "sh", "-c", "exit 5"}, 5, "task-clock"},
		{"system wide", []string{"-a", "sh", "-c", "exit 6"}, 6, "for 'system wide':"},
		{"intervals", []string{"-I", "10", "--interval-count", "2", "sleep", "100"}, 0, `(?s)\d\.\d{9} .*\d\.\d{9} `},
		{"repeated", []string{"-r", "3", "true"}, 0, `for 'true' \(3 runs\):`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			args := append([]string{"stat", "-e", "task-clock"}, tt.args...)
			if tt.args[0] == "-n" {
				args = append([]string{"stat"}, tt.args...)
			}
			got := run(t, bperf(args...))
			if got.status != tt.status || !regexp.MustCompile(tt.want).MatchString(got.stderr) {
				t.Errorf("status %d, stderr:\n%s\nwant status %d and %q", got.status, got.stderr, tt.status, tt.want)
			}
		})
	}
}

// counted returns the value of the only event in a CSV result.
func counted(t *testing.T, csv string) int {
	t.Helper()
	value, _, _ := strings.Cut(csv, ",")
	n, err := strconv.Atoi(value)
	if err != nil {
		t.Fatalf("no count in %q", csv)
	}
	return n
}

const getppid = "syscalls:sys_enter_getppid"

// caller writes a program that calls getppid a thousand times, and returns how many such calls a shell itself makes.
func caller(t *testing.T) (path string, shell int) {
	t.Helper()
	require.Tracefs(t)
	path = program1000.Write(t)
	return path, counted(t, run(t, bperf("stat", "-x,", "-e", getppid, "sh", "-c", ":")).stderr)
}

var program1000 = program.Program{Body: program.GetPPID, Times: 1000}

// TestStatCounts counts commands that do a known number of calls, for each way of starting them.
func TestStatCounts(t *testing.T) {
	call, shell := caller(t)
	tests := []struct {
		name     string
		args     []string
		script   string
		min, max int
	}{
		{"inherited", nil, "$0; $0 & wait", shell + 2000, shell + 2000},
		{"not inherited", []string{"-i"}, "$0; :", shell, shell},
		{"executed", []string{"-i"}, "exec $0", shell + 1000, shell + 1000},
		{"intervals", []string{"-I", "10", "--interval-count", "1000000", "--summary", "--no-csv-summary"}, "$0; $0", shell + 2000, shell + 2000},
		{"filtered out", []string{"--filter", "common_pid == 0"}, "$0", 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			args := append([]string{"stat", "-x,", "-e", getppid}, tt.args...)
			got := run(t, bperf(append(args, "sh", "-c", tt.script, call)...))
			lines := strings.Split(strings.TrimSpace(got.stderr), "\n")
			if n := counted(t, lines[len(lines)-1]); n < tt.min || n > tt.max {
				t.Errorf("counted %d, want %d to %d", n, tt.min, tt.max)
			}
		})
	}
}

// TestStatDelay runs a command that does its work after the events are enabled.
func TestStatDelay(t *testing.T) {
	call, shell := caller(t)
	cmd := bperf("stat", "-x,", "-e", getppid, "-D", "1", "sh", "-c", "read go; $0; $0", call)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	got := runNoting(t, cmd, func(note string) {
		if note == "# Events enabled" {
			stdin.Close()
		}
	})
	_, count, _ := strings.Cut(got.stderr, "# Events enabled\n")
	if n := counted(t, count); n < 2000 || n > shell+2000 {
		t.Errorf("counted %d, want 2000 to %d; stderr:\n%s", n, shell+2000, got.stderr)
	}
}

// TestStatDelayElapsed checks that the elapsed time is without the delay.
func TestStatDelayElapsed(t *testing.T) {
	const delay = 100 * time.Millisecond
	cmd := bperf("stat", "-e", "duration_time", "-D", "100", "sh", "-c", "read go")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	got := runNoting(t, cmd, func(note string) {
		if note == "Events enabled" {
			stdin.Close()
		}
	})
	most := time.Since(start) - delay
	match := regexp.MustCompile(`([0-9.]+) seconds time elapsed`).FindStringSubmatch(got.stderr)
	if match == nil {
		t.Fatalf("no elapsed time in %q", got.stderr)
	}
	if elapsed, err := time.ParseDuration(match[1] + "s"); err != nil || elapsed <= 0 || elapsed > most {
		t.Errorf("elapsed %v, want at most %v (%v)", elapsed, most, err)
	}
}

func TestStatJSON(t *testing.T) {
	require.Root(t)
	got := run(t, bperf("stat", "-j", "-e", "task-clock,page-faults", "-r", "2", "--", "sh", "-c", "exit 3"))
	if got.status != 3 {
		t.Errorf("status %d, want 3", got.status)
	}
	var keys []string
	lines := bufio.NewScanner(strings.NewReader(got.stderr))
	for lines.Scan() {
		var object map[string]any
		if err := json.Unmarshal(lines.Bytes(), &object); err != nil {
			t.Fatalf("%s: %v", lines.Bytes(), err)
		}
		keys = append(keys, fmt.Sprint(object["event"]))
	}
	if want := []string{"task-clock", "page-faults"}; !slices.Equal(keys, want) {
		t.Errorf("objects of %q, want %q", keys, want)
	}
}

func TestStatFiles(t *testing.T) {
	require.Root(t)
	file := filepath.Join(t.TempDir(), "out")
	for range 2 {
		if got := run(t, bperf("stat", "-e", "cs", "-x,", "-o", file, "--append", "true")); got.stderr != "" {
			t.Errorf("stderr: %s", got.stderr)
		}
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if want := `^(# started on [^\n]*\n\n\d+,,cs,\d+,100.00,[^\n]*\n){2}$`; !regexp.MustCompile(want).Match(content) {
		t.Errorf("-o --append wrote:\n%s\nwant %s", content, want)
	}
	if got := run(t, bperf("stat", "-e", "cs", "--quiet", "echo", "x")); got.stdout != "x\n" || got.stderr != "" {
		t.Errorf("--quiet printed %q and %q", got.stdout, got.stderr)
	}
	if got := run(t, bperf("stat", "-e", "cs", "--quiet", "-v", "true")); !regexp.MustCompile(`^cs: \d+ \d+ \d+\n$`).MatchString(got.stderr) {
		t.Errorf("--quiet -v printed %q and %q", got.stdout, got.stderr)
	}
	if got := run(t, bperf("stat", "-e", "cs", "-x,", "--log-fd", "1", "true")); !strings.Contains(got.stdout, ",cs,") || got.stderr != "" {
		t.Errorf("--log-fd 1 printed %q and %q", got.stdout, got.stderr)
	}
}

// TestStatControl starts disabled. Work of the command before Enable must not be counted.
func TestStatControl(t *testing.T) {
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
$0; say ping; $0; say enable; $0; $0; say disable; $0`
	got := run(t, bperf("stat", "-x,", "-e", getppid, "-D", "-1", "--control", "fifo:"+ctl+","+ack, "sh", "-c", script, call, ctl, ack))
	if got.status != 0 {
		t.Fatalf("status %d, stderr:\n%s", got.status, got.stderr)
	}
	want := "# Events disabled\n# Events enabled\n# Events disabled\n"
	notes, rest, _ := strings.Cut(got.stderr, want)
	if notes != "" || counted(t, rest) != 2000 {
		t.Errorf("printed:\n%s\nwant %sand a count of 2000", got.stderr, want)
	}
}

// waitingShell starts a shell that runs a script when its standard input is closed. It has made the calls of a shell's beginning.
func waitingShell(t *testing.T, script string, args ...string) (shell *exec.Cmd, stdin io.Closer) {
	t.Helper()
	shell = exec.Command("sh", append([]string{"-c", "echo waiting; read go; " + script}, args...)...)
	stdin, err := shell.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := shell.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := stdout.Read(make([]byte, 64)); err != nil {
		t.Fatal(err)
	}
	return shell, stdin
}

// TestStatProcess counts an existing process until it ends.
func TestStatProcess(t *testing.T) {
	require.AnyArch(t)
	call, _ := caller(t)
	for _, flag := range []string{"-p", "-t"} {
		shell, stdin := waitingShell(t, "$0; $0 & wait", call)
		got := runNoting(t, bperf("stat", "-x,", "-e", getppid, "-D", "1", flag, strconv.Itoa(shell.Process.Pid)), func(note string) {
			if note == "# Events enabled" {
				stdin.Close()
				shell.Wait()
			}
		})
		_, count, _ := strings.Cut(got.stderr, "# Events enabled\n")
		if n := counted(t, count); n != 2000 || got.status != 0 {
			t.Errorf("%s: counted %d, want 2000; status %d, stderr:\n%s", flag, n, got.status, got.stderr)
		}
	}
}

// TestStatCgroups counts two cgroups that a program moves between.
func TestStatCgroups(t *testing.T) {
	require.AnyArch(t)
	call, _ := caller(t)
	script := "echo 0 >$1/cgroup.procs; $0; echo 0 >$2/cgroup.procs; $0; $0"
	dirs := cgroups(t, 2)
	a, b := dirs[0], dirs[1]
	for _, args := range [][]string{
		{"-e", getppid, "--for-each-cgroup", a + "," + b},
		{"-e", getppid + "," + getppid, "-G", a + "," + b},
	} {
		got := run(t, bperf(append(append([]string{"stat", "-a", "-x,"}, args...), "sh", "-c", script, call, a, b)...))
		lines := strings.Split(strings.TrimSpace(got.stderr), "\n")
		if len(lines) != 2 || counted(t, lines[0]) != 1000 || counted(t, lines[1]) != 2000 {
			t.Errorf("%v printed:\n%s\nwant 1000 and 2000", args, got.stderr)
		}
	}
}

// TestStatInterrupt interrupts sessions with and without a command. They must print, and die of the signal.
func TestStatInterrupt(t *testing.T) {
	require.Root(t)
	for _, args := range [][]string{
		{"-a", "-e", "cpu-clock"},
		{"-e", "task-clock", "sleep", "100"},
		{"-r", "0", "-e", "task-clock", "sleep", "100"},
	} {
		ready := make(chan struct{})
		cmd := bperf(append([]string{"stat", "-D", "1"}, args...)...)
		stderr, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var output strings.Builder
		go func() {
			defer close(ready)
			lines := bufio.NewScanner(stderr)
			for lines.Scan() {
				fmt.Fprintln(&output, lines.Text())
				if lines.Text() == "Events enabled" {
					cmd.Process.Signal(syscall.SIGINT)
				}
			}
		}()
		select {
		case <-ready:
		case <-time.After(10 * time.Minute):
			cmd.Process.Kill()
			t.Fatalf("%v goes on after SIGINT", args)
		}
		err = cmd.Wait()
		exit, ok := err.(*exec.ExitError)
		if !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGINT {
			t.Errorf("%v ended with %v, want SIGINT", args, err)
		}
		if !strings.Contains(output.String(), "seconds time elapsed") {
			t.Errorf("%v printed:\n%s", args, output.String())
		}
	}
}

// TestStatIgnored gives flags of perf that change nothing.
func TestStatIgnored(t *testing.T) {
	got := run(t, bperf("stat", "--metric-no-group", "--metric-no-merge", "--metric-no-threshold", "--no-affinity", "-x,", "-e", "task-clock", "true"))
	if got.status != 0 || !strings.Contains(got.stderr, ",msec,task-clock,") {
		t.Errorf("%+v", got)
	}
}
