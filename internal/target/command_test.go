package target

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestMain makes the test binary a program that starts commands. With "start" or "run" as the first argument it runs the rest as a command
// and ends as the command does. A suffix "-50" makes it act as if it had been started with a hard limit of 50 files and had raised it.
// "orphan" dies before Exec.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 {
		verb, raised := strings.CutSuffix(os.Args[1], "-50")
		if raised {
			hardFileLimit = 50
		}
		switch verb {
		case "start":
			c, err := StartCommand(os.Args[2:])
			if err == nil {
				err = c.Exec()
			}
			endAs(c, err)
		case "run":
			endAs(RunCommand(os.Args[2:]))
		case "orphan":
			startAndDie(os.Args[2:])
		}
	}
	os.Exit(m.Run())
}

func endAs(c *Command, err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(c.Wait().ExitCode())
}

func startAndDie(argv []string) {
	c, err := StartCommand(argv)
	if err != nil {
		panic(err)
	}
	fmt.Println(c.PID())
	syscall.Kill(os.Getpid(), syscall.SIGKILL)
}

func start(t testing.TB, argv ...string) *Command {
	t.Helper()
	c, err := StartCommand(argv)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Kill() })
	return c
}

func TestCommandStatus(t *testing.T) {
	tests := []struct {
		script string
		code   int
		signal syscall.Signal
		exit   int
	}{
		{"exit 0", 0, 0, 0},
		{"exit 7", 7, 0, 7},
		{"kill -TERM $$", 0, syscall.SIGTERM, 143},
	}
	for _, tt := range tests {
		c := start(t, "sh", "-c", tt.script)
		if err := c.Exec(); err != nil {
			t.Fatal(err)
		}
		got := c.Wait()
		if got.Code != tt.code || got.Signal != tt.signal || got.ExitCode() != tt.exit || got.Wall <= 0 {
			t.Errorf("%s: %+v, want code %d, signal %d, exit status %d", tt.script, got, tt.code, tt.signal, tt.exit)
		}
		if again := c.Wait(); again != got {
			t.Errorf("%s: %+v, and then %+v", tt.script, got, again)
		}
		if err := c.signal(syscall.SIGTERM); err != nil {
			t.Errorf("signal to a command that has ended: %v", err)
		}
	}
}

func TestCommandWaitsForExec(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ran")
	c := start(t, "touch", file)
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", c.PID()))
	if err != nil || string(comm) == "touch\n" {
		t.Errorf("the child is %q (%v) before Exec", comm, err)
	}
	if err := c.Kill(); err != nil {
		t.Error(err)
	}
	if got := c.Wait(); got.Signal != syscall.SIGKILL {
		t.Errorf("%+v, want SIGKILL", got)
	}
	if err := c.Exec(); err == nil {
		t.Error("Exec after Kill is no error")
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the command ran without Exec")
	}
}

func TestSignalReachesCommand(t *testing.T) {
	c := start(t, "sleep", "1000")
	if err := c.Exec(); err != nil {
		t.Fatal(err)
	}
	if err := c.signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := c.Wait(); got.Signal != syscall.SIGTERM {
		t.Errorf("%+v, want SIGTERM", got)
	}
}

type otherSignal struct{}

func (otherSignal) Signal()        {}
func (otherSignal) String() string { return "other" }

// TestEnd ends a command with a signal, kills one that ignores the signal at the next one, and waits for one that may not be signaled.
func TestEnd(t *testing.T) {
	for _, tt := range []struct {
		script string
		signal os.Signal
		next   []os.Signal // that arrive later
		want   Status
	}{
		{"exec sleep 1000", syscall.SIGTERM, nil, Status{Signal: syscall.SIGTERM}},
		{"trap '' TERM; echo > $0; exec sleep 1000", syscall.SIGTERM, []os.Signal{syscall.SIGINT}, Status{Signal: syscall.SIGKILL}},
		{"exit 3", otherSignal{}, nil, Status{Code: 3}},
	} {
		ready := filepath.Join(t.TempDir(), "ready")
		c := start(t, "sh", "-c", tt.script, ready)
		if err := c.Exec(); err != nil {
			t.Fatal(err)
		}
		for _, err := os.Stat(ready); err != nil && tt.next != nil; _, err = os.Stat(ready) {
			time.Sleep(time.Millisecond)
		}
		signals := make(chan os.Signal, 1)
		for _, sig := range tt.next {
			signals <- sig
		}
		got, next := c.End(tt.signal, c.Exited(), signals)
		if got.Signal != tt.want.Signal || got.Code != tt.want.Code || (next != nil) != (tt.next != nil) {
			t.Errorf("%s: %+v at %v, want %+v", tt.script, got, next, tt.want)
		}
	}
}

func TestSignalOfAnotherSystem(t *testing.T) {
	c := start(t, "true")
	checkError(t, c.signal(otherSignal{}), "send other to the command: not a signal of this system")
}

// burned is the CPU time, user and system each, that the child of TestCommandTimes uses before it waits to become the command. The
// command's CPU time must not include it.
const burned, burnVariable = 200 * time.Millisecond, "BPERF_TEST_BURN"

// Variables are initialized before init functions run, and so before the child waits.
var _ = burn()

func burn() error {
	for os.Args[0] == childName && os.Getenv(burnVariable) != "" {
		var usage syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
			return err
		}
		if usage.Utime.Nano() < burned.Nanoseconds() {
			for range 1_000_000 {
			}
		} else if usage.Stime.Nano() >= burned.Nanoseconds() {
			break
		}
	}
	return nil
}

// TestCommandTimes starts a child that uses much CPU time before it becomes a command that uses little.
func TestCommandTimes(t *testing.T) {
	t.Setenv(burnVariable, "1")
	c := start(t, "true")
	if err := c.Exec(); err != nil {
		t.Fatal(err)
	}
	got := c.Wait()
	if user, system := time.Duration(c.before.Utime.Nano()), time.Duration(c.before.Stime.Nano()); user < burned || system < burned {
		t.Errorf("the child says it used %v and %v before Exec, but that was %v and more of each", user, system, burned)
	}
	// The kernel does not count the CPU time of threads on other CPUs since their last tick. Apart from that, the command uses no more than
	// the time from Exec on, and the child uses a CPU beside it until it is gone.
	if most := 2*got.Wall + burned/2; got.User < 0 || got.System < 0 || got.User+got.System > most {
		t.Errorf("%+v: that contains some of the CPU time from before Exec", got)
	}
}

func TestExecErrors(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return file
	}
	tests := []struct {
		argv0 string
		errno syscall.Errno
		want  string
	}{
		{"bperf-no-such-command", syscall.ENOENT, "Workload failed: No such file or directory"},
		{"/bperf/no/such/command", syscall.ENOENT, "Workload failed: No such file or directory"},
		{"", syscall.ENOENT, "Workload failed: No such file or directory"},
		{write("plain", "text", 0o644), syscall.EACCES, "Workload failed: Permission denied"},
		{write("interpreter", "#!/bperf/no/such/shell\n", 0o755), syscall.ENOENT, "Workload failed: No such file or directory"},
		{dir, syscall.EACCES, "Workload failed: Permission denied"},
	}
	for _, tt := range tests {
		c := start(t, tt.argv0)
		err := c.Exec()
		checkError(t, err, tt.want)
		var exec *ExecError
		if !errors.As(err, &exec) || exec.Name != tt.argv0 || !errors.Is(err, tt.errno) {
			t.Errorf("%#v, want the errno %v and the name %q", err, tt.errno, tt.argv0)
		}
		if got := c.Wait(); got.Code != 127 {
			t.Errorf("%+v, want status 127", got)
		}
	}
	_, err := StartCommand(nil)
	checkError(t, err, "no command is given")
}

// TestPath checks that a command is looked up as execvp does.
func TestPath(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"a/cmd": 0o644, "b/cmd": 0o755, "here": 0o755} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("exit $(( $# + 40 ))\n"), mode); err != nil { // without #!
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	tests := []struct {
		path, argv0 string
		code        int
		err         string
	}{
		{path: "/bperf/no:" + dir + "/a:" + dir + "/b", argv0: "cmd", code: 42},
		{path: dir + "/a", argv0: "cmd", err: "Workload failed: Permission denied"},
		{path: dir + "/b/cmd:" + dir + "/b", argv0: "cmd", code: 42}, // a file among the directories
		{path: "/bperf/no:", argv0: "here", code: 42},
		{path: "/bperf/no", argv0: "./here", code: 42},
		{path: dir, argv0: "cmd", err: "Workload failed: No such file or directory"},
	}
	for _, tt := range tests {
		t.Setenv("PATH", tt.path)
		c := start(t, tt.argv0, "x", "y")
		err := c.Exec()
		checkError(t, err, tt.err)
		if got := c.Wait().Code; err == nil && got != tt.code {
			t.Errorf("PATH %s: %s ended with %d, want %d", tt.path, tt.argv0, got, tt.code)
		}
	}
}

// TestEnvironmentOfCommand checks that a command starts with the environment, signals and descriptors that this program was started with.
func TestEnvironmentOfCommand(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// The shell reads its own signals and files, because it changes them to start a program.
	const show = `while read name value; do case $name in Sig[BIC]*) echo $name $value; esac; done </proc/$$/status
		ulimit -Sn; ulimit -Hn; env | sort; echo $0 "$@"; cd /proc/$$/fd; echo fds: *`
	for _, prepare := range []string{"", "ulimit -Sn 77; ", "ulimit -n 78; ", "exec 5</dev/null; ", "trap '' HUP INT; ", "export A='b c'; "} {
		run := func(wrapper string) string {
			script := fmt.Sprintf(`%s exec %s sh -c '%s' zero "one two" three`, prepare, wrapper, show)
			cmd := exec.Command("sh", "-c", script)
			cmd.Stdin = strings.NewReader("")
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%s: %v\n%s", script, err, out)
			}
			return string(out)
		}
		plain := run("env")
		for _, way := range []string{" start", " run"} {
			if diff := cmp.Diff(plain, run(self+way)); diff != "" {
				t.Errorf("after %q, what a command sees changes with%s:\n%s", prepare, way, diff)
			}
		}
	}
}

// TestRaisedFileLimit checks that the command does not get a hard limit that was raised for counters.
func TestRaisedFileLimit(t *testing.T) {
	for _, way := range []string{"start-50", "run-50"} {
		out, err := exec.Command("/proc/self/exe", way, "sh", "-c", "ulimit -Hn; ulimit -Sn").CombinedOutput()
		if err != nil || string(out) != "50\n50\n" {
			t.Errorf("%s: the command has the limits %q (%v), want 50 and 50", way, out, err)
		}
	}
}

func TestChildEndsWithParent(t *testing.T) {
	var out bytes.Buffer
	cmd := exec.Command("/proc/self/exe", "orphan", "sleep", "1000")
	cmd.Stdout = &out // Wait returns when the child has closed it, too
	if err := cmd.Run(); err == nil {
		t.Fatal("the parent was to be killed")
	}
	var pid int
	if _, err := fmt.Sscan(out.String(), &pid); err != nil {
		t.Fatal(err)
	}
	// A process that waits to be reaped, or another one that has the ID by now, is not the child.
	if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && bytes.HasPrefix(line, []byte(childName)) {
		t.Errorf("the child %d lives on: %q", pid, line)
	}
}

// BenchmarkCommand starts a command that waits, lets it go on, and reaps it.
func BenchmarkCommand(b *testing.B) {
	for b.Loop() {
		c := start(b, "/bin/true")
		if err := c.Exec(); err != nil {
			b.Fatal(err)
		}
		c.Wait()
	}
}
