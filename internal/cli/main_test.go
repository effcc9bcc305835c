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
)

// serveFUSE is set in the environment of a test binary that is to be a server of FUSE.
const serveFUSE = "BPERF_TEST_FUSE"

// TestMain makes the test binary bperf itself when it is asked to be: what is tested is the whole
// program, with its exit status.
func TestMain(m *testing.M) {
	if os.Getenv("BPERF_TEST_MAIN") != "" {
		enterPlace()
		if os.Getenv("BPERF_TEST_SECCOMP") != "" {
			refuse(unix.SYS_PERF_EVENT_OPEN, unix.SYS_BPF)
		}
		os.Exit(Main(os.Args))
	}
	if os.Getenv(serveFUSE) != "" {
		os.Exit(fuse.Main(os.Args[1:]))
	}
	// A shell starts what runs in the background with SIGINT ignored, and nohup(1) with SIGHUP. Programs that the tests start must have
	// them at their default: execve(2) sets a signal with a handler to its default, and leaves one that is ignored.
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGHUP} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
	if err := os.Setenv("PERF_CONFIG", os.DevNull); err != nil { // whoever runs the tests may have a configuration
		panic(err)
	}
	os.Exit(m.Run())
}

// bperf is a command that runs it.
func bperf(args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Args[0] = "bperf"
	cmd.Env = append(os.Environ(), "BPERF_TEST_MAIN=1", "LC_ALL=C")
	return cmd
}

// runHere runs bperf in this process, for what is refused before anything is done: emulated guests take half a second to start one.
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

// result is how bperf ended.
type result struct {
	stdout, stderr string
	status         int // 128 and the signal, if one ended it
}

// run runs a command to its end. What it writes to standard error goes to cmd.Stderr, too, if there is one.
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

// runNoting is run, which hands on each line of standard error as it comes.
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
