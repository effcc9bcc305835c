package cli

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/internal/count/shared"
	"github.com/bperf/bperf/test/golden"
	"github.com/bperf/bperf/test/require"
)

// at returns a time on the day of the golden files.
func at(hour, minute, second int) time.Time {
	return time.Date(2026, 3, 14, hour, minute, second, 159265358, time.UTC)
}

// busy returns the status of a machine that has something in every part of the output.
func busy() *shared.Status {
	return &shared.Status{
		Events: []shared.EventStatus{
			{Name: "cycles", User: true, Kernel: true, Since: at(8, 0, 0), CPUs: "0-63", Sessions: 2},
			{Name: "instructions:u", User: true, Since: at(8, 0, 0), CPUs: "0-63", Sessions: 1},
			{Name: "cycles", Kernel: true, Since: at(9, 30, 0), CPUs: "0,32", Sessions: 0},
			{Name: "instructions", User: true, Kernel: true, Since: at(9, 30, 0), Leader: 77, Sessions: 1},
			{Name: "kmem:kmalloc", Filter: "bytes_req>4096", User: true, Kernel: true, Since: at(9, 30, 1), CPUs: "0-63", Sessions: 1},
		},
		Sessions: []shared.SessionStatus{
			{PID: 812, Command: []string{"bperf", "stat", "--bpf-counters", "-a", "-e", "cycles,instructions:u"}, Target: "CPU 0-63",
				Events: []string{"cycles", "instructions:u"}, Since: at(8, 0, 0)},
			{PID: 1234567, Command: []string{"bperf", "stat", "-p", "99", "-e", "cycles:b,kmem:kmalloc:b", "--filter", "a\x1b[2J"},
				Target: "thread 99 (täsk)", Events: []string{"cycles", "kmem:kmalloc"}, Since: at(9, 30, 1)},
		},
		Ended: 1,
		Lost:  shared.Lost{Readings: 3, Tasks: 12, Runs: 2},
		Tables: []shared.Table{{Name: "events", Used: 4, Room: 64}, {Name: "sessions", Used: 3, Room: 1024},
			{Name: "nodes", Used: 2, Room: 16383}, {Name: "tasks", Used: 17, Room: 1048576}, {Name: "cgroups", Room: 16384}},
		Cost: &shared.Cost{Window: 1000 * time.Millisecond, CPUs: 64, Switches: 200000, Programs: []shared.ProgramCost{
			{Name: "on_switch", ID: 101, Hook: "sched_switch", Runs: 200000, RunTime: 17 * time.Millisecond},
			{Name: "on_newtask", ID: 102, Hook: "task_newtask", Runs: 12, RunTime: 3000 * time.Nanosecond, Missed: 2},
			{Name: "sync", ID: 99, Runs: 128, RunTime: 100 * time.Microsecond},
			{Name: "find", ID: 100},
		}},
		OtherVersions: []string{"counters-0123abcd", "counters-4567cdef"},
	}
}

// quiet returns the status of a machine on which one session counts CPUs, and perf counts the same event.
func quiet() *shared.Status {
	s := busy()
	s.Events, s.Sessions, s.Ended = s.Events[:1], s.Sessions[:1], 0
	s.Events[0].Sessions, s.Events[0].Apart, s.Sessions[0].Events = 1, true, []string{"cycles"}
	s.Lost, s.OtherVersions = shared.Lost{}, []string{}
	s.Tables = s.Tables[:1]
	s.Cost.Programs = s.Cost.Programs[2:]
	return s
}

// idle returns the status of a machine without shared counters.
func idle() *shared.Status {
	return &shared.Status{Events: []shared.EventStatus{}, Sessions: []shared.SessionStatus{}, Tables: []shared.Table{}, OtherVersions: []string{}}
}

// remains returns the status of a machine with traces of killed sessions and other versions.
func remains() *shared.Status {
	s := idle()
	s.Ended, s.OtherVersions = 3, []string{"counters-0123abcd"}
	return s
}

func TestPrintCounters(t *testing.T) {
	for name, status := range map[string]*shared.Status{"busy": busy(), "quiet": quiet(), "idle": idle(), "remains": remains()} {
		t.Run(name, func(t *testing.T) {
			var text, object strings.Builder
			if err := printCounters(&text, status); err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, filepath.Join("testdata", "counters-"+name+".golden"), text.String())
			if err := printCountersJSON(&object, status); err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, filepath.Join("testdata", "counters-"+name+".json"), withoutStamp(object.String()))
			var back shared.Status
			unwrap(t, object.String(), countersSchema, &back)
			if diff := cmp.Diff(status, &back); diff != "" {
				t.Errorf("JSON gives back -want +got:\n%s", diff)
			}
		})
	}
}

func TestCountersRefuses(t *testing.T) {
	for args, want := range map[string]result{
		"counters --interval 9": {"", "Error: --interval 9: the interval must be at least 10 ms\n", 22},
		"counters --interval x": {"", "Error: invalid argument \"x\" for \"--interval\" flag: " +
			"\"x\" is neither a whole number of milliseconds nor a time such as 500ms or 1s\n" +
			"See bperf counters --help\n", 129},
		"counters now": {"", "Error: bperf counters takes no argument \"now\"\nSee bperf counters --help\n", 1},
	} {
		if got := run(t, bperf(strings.Fields(args)...)); got != want {
			t.Errorf("%s: %+v, want %+v", args, got, want)
		}
	}
}

// These environment variables make the test binary run bperf in a separate bpffs.
const (
	placeEnv = "BPERF_TEST_BPFFS" // directory that is mounted on /sys/fs/bpf
	userEnv  = "BPERF_TEST_USER"  // ID of the user who runs it there
)

// enterPlace applies these environment variables.
func enterPlace() {
	if dir := os.Getenv(placeEnv); dir != "" {
		if err := unix.Mount(dir, "/sys/fs/bpf", "", unix.MS_BIND, ""); err != nil {
			panic(err)
		}
	}
	if user, err := strconv.Atoi(os.Getenv(userEnv)); err == nil {
		if err := syscall.Setuid(user); err != nil {
			panic(err)
		}
	}
}

// place is a bpffs in which the sessions of a test share among themselves.
type place string

func newPlace(t *testing.T) place {
	t.Helper()
	require.Root(t)
	dir := t.TempDir()
	if err := unix.Mount("bpf", dir, "bpf", 0, "mode=0755"); err != nil {
		t.Fatalf("mount bpffs: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return place(dir)
}

// bperf returns a command that runs bperf there.
func (p place) bperf(args ...string) *exec.Cmd {
	cmd := bperf(args...)
	cmd.Env = append(cmd.Env, placeEnv+"="+string(p))
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	return cmd
}

// session starts a session that counts until end sends it a signal.
func (p place) session(t *testing.T, args ...string) (end func(os.Signal), pid int) {
	t.Helper()
	cmd := p.bperf(append([]string{"stat", "--bpf-counters", "-I", "10"}, args...)...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	for lines.Scan() && !strings.Contains(lines.Text(), "cpu-clock") {
	}
	if lines.Err() != nil || lines.Text() == "" {
		t.Fatalf("%v ended before it counted: %v", args, lines.Err())
	}
	rest := make(chan struct{})
	go func() {
		defer close(rest)
		for lines.Scan() {
		}
	}()
	ended := false
	end = func(sig os.Signal) {
		if ended {
			return
		}
		ended = true
		if err := cmd.Process.Signal(sig); err != nil {
			t.Error(err)
		}
		<-rest
		cmd.Wait()
	}
	t.Cleanup(func() { end(os.Kill) })
	return end, cmd.Process.Pid
}

// TestCounters shows two sessions, what remains when one is killed, and that nothing remains when both have ended.
func TestCounters(t *testing.T) {
	require.AnyArch(t)
	p := newPlace(t)
	none := result{stdout: "No counters are shared.\n"}
	if got := run(t, p.bperf("counters")); got != none {
		t.Fatalf("without sessions: %+v", got)
	}
	endCPUs, onCPUs := p.session(t, "-e", "cpu-clock,page-faults:u", "-a")
	endTask, onTask := p.session(t, "-e", "cpu-clock", "-t", fmt.Sprint(onCPUs))

	got := run(t, p.bperf("counters", "--json", "--interval", "10"))
	var status struct {
		shared.Status
		Cost struct {
			shared.Cost
			PerSwitch float64 `json:"ns_per_switch"`
		} `json:"cost"`
	}
	if unwrap(t, got.stdout, countersSchema, &status); got.status != 0 {
		t.Fatalf("status %d:\n%s%s", got.status, got.stdout, got.stderr)
	}
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", onCPUs))
	if err != nil {
		t.Fatal(err)
	}
	want := []shared.SessionStatus{
		{PID: onCPUs, Command: strings.Fields("bperf stat --bpf-counters -I 10 -e cpu-clock,page-faults:u -a"), Target: status.Sessions[0].Target,
			Events: []string{"cpu-clock", "page-faults:u"}},
		{PID: onTask, Command: strings.Fields(fmt.Sprintf("bperf stat --bpf-counters -I 10 -e cpu-clock -t %d", onCPUs)),
			Target: fmt.Sprintf("thread %d (%s)", onCPUs, strings.TrimSpace(string(comm))), Events: []string{"cpu-clock"}},
	}
	if diff := cmp.Diff(want, status.Sessions, cmpopts.IgnoreTypes(time.Time{})); diff != "" {
		t.Errorf("sessions: -want +got:\n%s", diff)
	}
	if c := status.Cost; len(c.Programs) == 0 || c.Programs[0].Name != "on_switch" || c.Switches == 0 || c.PerSwitch <= 0 {
		t.Errorf("cost: %+v", c)
	}

	got = run(t, p.bperf("counters", "--interval", "10"))
	if got.status != 0 || got.stderr != "" {
		t.Errorf("status %d, stderr:\n%s", got.status, got.stderr)
	}
	for _, pattern := range []string{
		`(?m)^cpu-clock +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d +all +0\S* +2$`,
		`(?m)^page-faults:u +.* user +0\S* +1$`,
		fmt.Sprintf(`(?m)^ *%d +.* CPU 0\S* +cpu-clock,page-faults:u +bperf stat --bpf-counters -I 10 -e`, onCPUs),
		`(?m)^on_switch +\d+ +sched_switch +\d+ +\d+\.\d +\d+ +\d+$`,
		`(?m)^context switches: \d+, to each of which sharing added \d+\.\d ns$`,
		`(?m)^in use: +2 of 64 events, 2 of 1024 sessions, 1 of 16383 nodes, 1 of \d+ tasks`,
	} {
		if !regexp.MustCompile(pattern).MatchString(got.stdout) {
			t.Errorf("nothing matches %s in\n%s", pattern, got.stdout)
		}
	}

	endTask(os.Kill)
	got = run(t, p.bperf("counters", "--interval", "10"))
	if !strings.Contains(got.stdout, "\nsessions that ended without leaving: 1;") || strings.Contains(got.stdout, fmt.Sprintf("-t %d", onCPUs)) {
		t.Errorf("after one was killed: %+v", got)
	}
	endCPUs(os.Interrupt)
	if got := run(t, p.bperf("counters")); got != none {
		t.Errorf("after both have ended: %+v", got)
	}
}

// TestCountersUnprivileged runs as nobody while a session shares counters.
func TestCountersUnprivileged(t *testing.T) {
	require.AnyArch(t)
	p := newPlace(t)
	p.session(t, "-e", "cpu-clock", "-a")
	cmd := p.bperf("counters")
	cmd.Env = append(cmd.Env, userEnv+"=65534")
	got := run(t, cmd)
	want := result{status: 1, stderr: "Error: look at the shared counters: shared counters are found through /sys/fs/bpf/bperf: " +
		"open /sys/fs/bpf/bperf: permission denied. Counters are shared between sessions of root, " +
		"or of a user with CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN (to find objects of others by ID)\n"}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestStatVerboseShared expects the number of sessions of a shared event, and nothing for events that are not shared.
func TestStatVerboseShared(t *testing.T) {
	require.AnyArch(t)
	p := newPlace(t)
	p.session(t, "-e", "cpu-clock", "-a")
	got := run(t, p.bperf("stat", "-v", "-a", "-e", "page-faults:b,cpu-clock:b,cpu-clock", "sleep", "0.01"))
	raw := regexp.MustCompile(`(?m)^(\S+: )\d+ \d+ \d+$`)
	before, _, _ := strings.Cut(raw.ReplaceAllString(got.stderr, "${1}n n n"), "\n\n")
	before = regexp.MustCompile(`\d+ runs, \d+ ns`).ReplaceAllString(before, "n runs, n ns")
	before = regexp.MustCompile(`machine: \d+,`).ReplaceAllString(before, "machine: n,")
	const want = "page-faults:b: n n n\ncpu-clock:b: n n n\ncpu-clock: n n n\n" +
		"page-faults:b: sessions that share it: 1\ncpu-clock:b: sessions that share it: 2\n" +
		"BPF program sync: n runs, n ns\ncontext switches of the machine: n, to each of which sharing added 0.0 ns"
	if before != want || got.status != 0 {
		t.Errorf("status %d, printed\n%s\nwant\n%s", got.status, got.stderr, want)
	}
}
