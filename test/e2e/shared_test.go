package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/test/program"
	"github.com/bperf/bperf/test/require"
)

// bothWays are events that one session counts both directly and with shared counters.
const bothWays = "instructions:u,instructions:ub,cycles:u,cycles:ub,cycles,cycles:b"

// TestSharedTruth counts a loop of known length, on every kind of target.
func TestSharedTruth(t *testing.T) {
	require.ExactPMU(t)
	require.OneCPU(t)
	keepSharing(t)
	loop := program.Program{Body: program.Spin, Times: 10_000_000, Wait: true}
	want := loop.InstructionsAfterWait()
	tests := []struct {
		name  string
		args  []string
		exact bool // the target has no other user-mode code
	}{
		{"process", []string{"-p", "PID"}, true},
		{"process without children", []string{"-i", "-p", "PID"}, true},
		{"thread", []string{"-t", "PID"}, true},
		{"per thread", []string{"--per-thread", "-p", "PID"}, true},
		{"CPU", []string{"-C", "0"}, false},
		{"each CPU", []string{"-a", "-A"}, false},
		{"system", []string{"-a"}, false},
		{"for each cgroup", []string{"-a", "--for-each-cgroup", "CGROUP"}, true},
		{"cgroup on a CPU", []string{"-C", "0", "-G", "CGROUP"}, true},
		{"process, delayed", []string{"-D", "1", "-p", "PID"}, true},
		{"CPU, delayed", []string{"-D", "1", "-C", "0"}, false},
		{"cgroup, delayed", []string{"-D", "1", "-a", "-G", "CGROUP"}, true},
		{"process, at intervals", []string{"-I", "10", "-p", "PID"}, true},
		{"CPU, at intervals", []string{"-I", "10", "-C", "0"}, false},
		{"cgroup, at intervals", []string{"-I", "10", "-a", "-G", "CGROUP"}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := startWaiting(t, loop)
			group := makeCgroup(t)
			w.join(t, group.dir)
			args := append([]string{"-e", bothWays}, tt.args...)
			for i, a := range args {
				args[i] = strings.NewReplacer("PID", strconv.Itoa(w.pid()), "CGROUP", group.name).Replace(a)
			}
			counts := statWhile(t, w.proceed, args...)
			counts.compareBoth(t, want, tt.exact)
		})
	}
}

// compareBoth fails the test if the shared counts differ from the direct counts, or from the known number of instructions. Unless exact is
// set, a shared count may be up to 10 % larger than that.
func (c counts) compareBoth(t *testing.T, instructions uint64, exact bool) {
	t.Helper()
	for _, event := range []string{"instructions:u", "cycles:u", "cycles"} {
		direct, shared := c.sums[event], c.sums[event+"b"]
		if event == "cycles" {
			shared = c.sums["cycles:b"]
		}
		if off := math.Abs(shared/direct - 1); !(off <= 0.005) {
			t.Errorf("%s: shared %.0f, direct %.0f: %.2f %% off", event, shared, direct, 100*off)
		}
		if event == "cycles" {
			continue
		}
		if want := float64(instructions); shared < want || exact && shared != want || shared > 1.1*want {
			t.Errorf("%s: shared %.0f, want %.0f", event, shared, want)
		}
	}
}

// TestSharedTruthOfCommands counts commands from their first instruction, with and without the tasks that they start.
func TestSharedTruthOfCommands(t *testing.T) {
	require.ExactPMU(t)
	require.OneCPU(t)
	keepSharing(t)
	const tasks = 8
	for name, p := range map[string]program.Program{
		"alone":     {},
		"threads":   {Tasks: tasks, Threads: true},
		"processes": {Tasks: tasks},
	} {
		p.Body, p.Times = program.Spin, 1_000_000
		command := p.Write(t)
		for _, tt := range []struct {
			args  []string
			exact bool // the counts include the tasks that the command starts
		}{
			{nil, true},
			{[]string{"-i"}, p.Tasks == 0},
			{[]string{"-I", "10"}, true},
			{[]string{"-r", "3"}, true},
		} {
			t.Run(name+strings.Join(tt.args, ""), func(t *testing.T) {
				args := append([]string{"-e", "instructions:u,instructions:ub,{cycles:ub,instructions:ub},context-switches,context-switches:b"}, tt.args...)
				c := statJSON(t, append(args, "--", command)...)
				shared, direct, want := c.sums["instructions:ub"]/2, c.sums["instructions:u"], float64(p.Instructions())
				if shared != direct || c.sums["cycles:ub"] != direct || tt.exact && shared != want || !tt.exact && shared > want/tasks {
					t.Errorf("instructions: shared %.0f, direct %.0f, cycles %.0f, want %.0f of all", shared, direct, c.sums["cycles:ub"], want)
				}
				// The shared counter counts an ending task up to the tracepoint sched_process_exit, its own counter up to
				// perf_event_exit_task (do_exit in kernel/exit.c). In between, the task closes its files, and a task that waits at the other
				// end of a pipe may run.
				shared, direct = c.sums["context-switches:b"], c.sums["context-switches"]
				if math.Abs(shared-direct) > float64(1+p.Tasks) {
					t.Errorf("context switches: shared %.0f, direct %.0f", shared, direct)
				}
			})
		}
	}
}

// TestSharedCommandStartsLate counts the second half of a command, from the end of a delay on.
func TestSharedCommandStartsLate(t *testing.T) {
	require.ExactPMU(t)
	require.OneCPU(t)
	keepSharing(t)
	loop := program.Program{Body: program.Spin, Times: 10_000_000, Wait: true}
	command := loop.Write(t)
	for _, args := range [][]string{{"-D", "1"}, {"-D", "1", "-i"}, {"-D", "1", "-I", "10"}} {
		in, proceed, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(bperfPath, append(append([]string{"stat", "-j", "-e", bothWays}, args...), "--", command)...)
		cmd.Stdin = in
		c := readCounts(t, cmd, func(note string) {
			if note == "Events enabled" {
				proceed.Close()
			}
		})
		in.Close()
		if len(c.notes) != 2 {
			t.Errorf("%v: notes %q", args, c.notes)
		}
		c.compareBoth(t, loop.InstructionsAfterWait(), true)
	}
}

// TestSharedGroups counts groups, each event of which has a separate shared counter.
func TestSharedGroups(t *testing.T) {
	require.ExactPMU(t)
	require.OneCPU(t)
	keepSharing(t)
	loop := program.Program{Body: program.Spin, Times: 1_000_000}
	c := statJSON(t, "--bpf-counters", "-e", "{cycles:u,instructions:u},{instructions:u,cycles:u,page-faults}:W", "--all-user", "--", loop.Write(t))
	for _, event := range []string{"instructions:u", "cycles:u"} {
		if got, want := c.sums[event], 2*float64(loop.Instructions()); got != want {
			t.Errorf("%s: got %.0f in two groups, want %.0f", event, got, want)
		}
	}
}

// TestSharedSystemCalls counts system calls, which every kernel counts exactly.
func TestSharedSystemCalls(t *testing.T) {
	require.Tracefs(t)
	keepSharing(t)
	const event, tasks, times = "syscalls:sys_enter_getppid", 8, 1000
	for name, p := range map[string]program.Program{
		"alone":     {},
		"threads":   {Tasks: tasks, Threads: true},
		"processes": {Tasks: tasks},
	} {
		p.Body, p.Times = program.GetPPID, times
		command := p.Write(t)
		for _, tt := range []struct {
			args []string
			want uint64
		}{
			{nil, uint64(1+p.Tasks) * times},
			{[]string{"-i"}, times},
			{[]string{"-I", "10"}, uint64(1+p.Tasks) * times},
		} {
			t.Run(name+strings.Join(tt.args, ""), func(t *testing.T) {
				args := append([]string{"-e", event + "," + event + ":b,page-faults,page-faults:b"}, tt.args...)
				c := statJSON(t, append(args, "--", command)...)
				for _, e := range []string{event, event + ":b"} {
					if got := c.sums[e]; got != float64(tt.want) {
						c.wrong(t, "%s: got %.0f, want %d", e, got, tt.want)
					}
				}
				if got, want := c.sums["page-faults:b"], c.sums["page-faults"]; got != want {
					c.wrong(t, "page faults: shared %.0f, direct %.0f", got, want)
				}
			})
		}
	}
}

// keepSharing runs a session that counts nothing until the end of the test. The sessions of the test reuse its shared counters, whose setup
// takes longer than everything else.
func keepSharing(t *testing.T) {
	t.Helper()
	require.BPFFS(t)
	cmd := exec.Command(bperfPath, "stat", "--bpf-counters", "-e", "dummy", "-p", strconv.Itoa(os.Getpid()), "sh", "-c", "echo counting; exec cat")
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

// counts are the counts of a session, summed over its intervals and places.
type counts struct {
	sums  map[string]float64 // by event
	notes []string
}

// wrong is like t.Errorf. But if the kernel hides context switches from BPF programs, and bperf has warned that counts may be wrong, it skips
// the test.
func (c counts) wrong(t *testing.T, format string, args ...any) {
	t.Helper()
	for _, note := range c.notes {
		if strings.Contains(note, "the kernel did not show") && !require.IsGuest() {
			t.Skipf(format+". bperf said: %s", append(args, note)...)
		}
	}
	t.Errorf(format, args...)
}

// statJSON runs `bperf stat -j ARGS...`.
func statJSON(t *testing.T, args ...string) counts {
	t.Helper()
	return readCounts(t, exec.Command(bperfPath, append([]string{"stat", "-j"}, args...)...), func(string) {})
}

// statWhile runs `bperf stat -j ARGS...` and calls do while it counts.
func statWhile(t *testing.T, do func(), args ...string) counts {
	t.Helper()
	cmd := exec.Command(bperfPath, append(append([]string{"stat", "-j"}, args...), "sh", "-c", "echo counting; exec cat")...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, inside, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdout.Close()
	cmd.Stdout = inside
	enabled := make(chan struct{}, 1)
	if !strings.Contains(strings.Join(args, " "), "-D ") {
		enabled <- struct{}{}
	}
	go func() {
		defer stdin.Close() // ends the session
		if _, err := stdout.Read(make([]byte, 64)); err == nil {
			<-enabled
			do()
		}
	}()
	return readCounts(t, cmd, func(note string) {
		if note == "Events enabled" {
			enabled <- struct{}{}
		}
	})
}

// readCounts runs a session and passes its notes to note. All counts must be present and not scaled.
func readCounts(t *testing.T, cmd *exec.Cmd, note func(string)) counts {
	t.Helper()
	var all bytes.Buffer
	c := counts{sums: make(map[string]float64)}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if inside, ok := cmd.Stdout.(*os.File); ok {
		inside.Close()
	}
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		fmt.Fprintln(&all, lines.Text())
		var object struct {
			Event   string
			Value   string  `json:"counter-value"`
			Running float64 `json:"pcnt-running"`
			Note    string
		}
		if err := json.Unmarshal(lines.Bytes(), &object); err != nil {
			continue // the exit status reports a failure
		}
		if object.Note != "" {
			c.notes = append(c.notes, object.Note)
			note(object.Note)
		}
		if object.Event == "" || object.Value == "<not counted>" {
			continue // a target sleeps during most intervals
		}
		value, err := strconv.ParseFloat(object.Value, 64)
		if err != nil || object.Running != 100 {
			t.Errorf("not counted all the time: %s", lines.Text())
		}
		c.sums[object.Event] += value
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, &all)
	}
	return c
}

// waiting is a program that waits for input.
type waiting struct {
	cmd     *exec.Cmd
	proceed func() // lets it run to its end
}

func startWaiting(t *testing.T, p program.Program) waiting {
	t.Helper()
	cmd := exec.Command(p.Write(t))
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for asleep := false; !asleep; {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		asleep = bytes.Contains(stat, []byte(") S "))
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return waiting{cmd, func() { stdin.Close(); cmd.Wait() }}
}

func (w waiting) pid() int { return w.cmd.Process.Pid }

func (w waiting) join(t *testing.T, dir string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(w.pid())), 0); err != nil {
		t.Fatal(err)
	}
}

type cgroup struct{ name, dir string }

func makeCgroup(t *testing.T) cgroup {
	t.Helper()
	root, err := target.Spec{System: true, Cgroups: []string{"/"}}.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(root.Cgroups[0].Path, "bperf-e2e-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	return cgroup{filepath.Base(dir), dir}
}
