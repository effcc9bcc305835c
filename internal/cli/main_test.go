package cli

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/test/fuse"
	"github.com/bperf/bperf/test/split"
)

// serveFUSE is the environment variable that makes the test binary a FUSE server.
const serveFUSE = "BPERF_TEST_FUSE"

// TestMain makes the test binary run bperf if the environment says so. The tests thus check the whole program, with its exit status.
func TestMain(m *testing.M) {
	if os.Getenv("BPERF_TEST_MAIN") != "" {
		enterPlace()
		if os.Getenv("BPERF_TEST_SECCOMP") != "" {
			refuse(unix.SYS_PERF_EVENT_OPEN, unix.SYS_BPF)
		}
		os.Exit(Main(os.Args))
	}
	split.Main()
	if os.Getenv(serveFUSE) != "" {
		os.Exit(fuse.Main(os.Args[1:]))
	}
	// A shell starts background jobs with SIGINT ignored, and nohup(1) sets SIGHUP to ignored. Programs that the tests start need the
	// default: execve(2) resets a signal with a handler, but leaves an ignored signal ignored.
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGHUP} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
	if err := os.Setenv("PERF_CONFIG", os.DevNull); err != nil { // ignore the configuration of the user who runs the tests
		panic(err)
	}
	if err := os.Setenv("PERF_PAGER", ""); err != nil { // no pager waits for keys
		panic(err)
	}
	for _, name := range []string{compatVariable, "DEBUGINFOD_URLS"} { // tests contact no server that they did not start
		if err := os.Unsetenv(name); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// bperf returns a command that runs bperf.
func bperf(args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Args[0] = "bperf"
	cmd.Env = append(os.Environ(), "BPERF_TEST_MAIN=1", "LC_ALL=C")
	return cmd
}

// runHere runs bperf in this process. It is for commands that fail before they do anything, because emulated guests need half a second to
// start a process.
func runHere(t *testing.T, args ...string) result {
	t.Helper()
	stdout, stderr := os.Stdout, os.Stderr
	defer func() { os.Stdout, os.Stderr = stdout, stderr }()
	var written [2]*os.File
	for i := range written {
		f, err := os.CreateTemp(t.TempDir(), "")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		written[i] = f
	}
	os.Stdout, os.Stderr = written[0], written[1]
	status := Main(append([]string{"bperf"}, args...))
	var text [2]string
	for i, f := range written {
		b, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		text[i] = string(b)
	}
	return result{text[0], text[1], status}
}

// result is the output and the exit status of bperf.
type result struct {
	stdout, stderr string
	status         int // 128 plus the signal, if a signal ended it
}

// run runs a command to its end. It also copies standard error to cmd.Stderr, if that is set.
func run(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout = &stdout
	if cmd.Stderr == nil {
		cmd.Stderr = io.Discard
	}
	cmd.Stderr = io.MultiWriter(&stderr, cmd.Stderr)
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	wait := cmd.ProcessState.Sys().(syscall.WaitStatus)
	status := wait.ExitStatus()
	if wait.Signaled() {
		status = 128 + int(wait.Signal())
	}
	return result{stdout.String(), stderr.String(), status}
}

// runNoting is like run, and calls note for each line of standard error as it arrives.
func runNoting(t *testing.T, cmd *exec.Cmd, note func(string)) result {
	t.Helper()
	r, w := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		lines := bufio.NewScanner(r)
		for lines.Scan() {
			note(lines.Text())
		}
	}()
	cmd.Stderr = w
	got := run(t, cmd)
	w.Close()
	<-done
	return got
}
