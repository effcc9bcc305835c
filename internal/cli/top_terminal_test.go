package cli

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/test/require"
)

// terminal is a pseudo terminal, with everything that was written to it.
type terminal struct {
	master, slave *os.File
	mu            sync.Mutex
	written       bytes.Buffer
}

func newTerminal(t *testing.T, columns, rows uint16) *terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { master.Close() })
	fd := int(master.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { slave.Close() })
	term := &terminal{master: master, slave: slave}
	term.resize(t, columns, rows)
	go func() {
		for b := make([]byte, 4096); ; {
			n, err := master.Read(b)
			term.mu.Lock()
			term.written.Write(b[:n])
			term.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return term
}

func (term *terminal) resize(t *testing.T, columns, rows uint16) {
	t.Helper()
	if err := unix.IoctlSetWinsize(int(term.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: rows}); err != nil {
		t.Fatal(err)
	}
}

// sequences matches escape sequences, such as those that move the cursor.
var sequences = regexp.MustCompile(`\x1b(\[[0-9;:?<=>$]*[a-zA-Z]|[=>]|[()][A-Z0-9])`)

// await waits until a pattern was written since the last one. It ignores escape sequences.
func (term *terminal) await(t *testing.T, pattern string) {
	t.Helper()
	expression := regexp.MustCompile(pattern)
	term.awaitText(t, pattern, func(text []byte) bool {
		found := expression.Match(sequences.ReplaceAll(text, nil))
		if found {
			term.written.Reset()
		}
		return found
	})
}

// awaitRaw waits for an escape sequence.
func (term *terminal) awaitRaw(t *testing.T, sequence string) {
	t.Helper()
	term.awaitText(t, strconv.Quote(sequence), func(text []byte) bool { return bytes.Contains(text, []byte(sequence)) })
}

// awaitText waits until what was written is what the test waits for. found is called with mu locked.
func (term *terminal) awaitText(t *testing.T, what string, found func(text []byte) bool) {
	t.Helper()
	var text []byte
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		term.mu.Lock()
		text = bytes.Clone(term.written.Bytes())
		is := found(text)
		term.mu.Unlock()
		if is {
			return
		}
	}
	t.Fatalf("%s was not written: %q", what, text)
}

func (term *terminal) press(t *testing.T, keys string) {
	t.Helper()
	if _, err := term.master.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}

// foreground returns the terminal's foreground process group.
func (term *terminal) foreground(t *testing.T) int {
	t.Helper()
	group, err := unix.IoctlGetInt(int(term.master.Fd()), unix.TIOCGPGRP)
	if err != nil || group <= 1 {
		t.Fatal(group, err)
	}
	return group
}

func (term *terminal) settings(t *testing.T) unix.Termios {
	t.Helper()
	s, err := unix.IoctlGetTermios(int(term.slave.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return *s
}

// start starts a command with the terminal as its controlling terminal.
func (term *terminal) start(t *testing.T, cmd *exec.Cmd) *exec.Cmd {
	t.Helper()
	cmd.Env = append(cmd.Env, "TERM=xterm")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = term.slave, term.slave, term.slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	return cmd
}

const (
	enterScreen = "\x1b[?1049h"
	leaveScreen = "\x1b[?1049l"
)

// TestTopOnTerminal presses keys on a terminal, and ends top in several ways. The terminal must be restored afterwards.
func TestTopOnTerminal(t *testing.T) {
	require.AnyArch(t)
	require.Root(t)
	_, id := loadEmpty(t, "bperf_test_scr")
	for name, end := range map[string]func(*testing.T, *terminal, *exec.Cmd){
		"q":       func(t *testing.T, term *terminal, _ *exec.Cmd) { term.press(t, "q") },
		"ctrl-c":  func(t *testing.T, term *terminal, _ *exec.Cmd) { term.press(t, "\x03") },
		"SIGINT":  func(_ *testing.T, _ *terminal, cmd *exec.Cmd) { cmd.Process.Signal(syscall.SIGINT) },
		"SIGTERM": func(_ *testing.T, _ *terminal, cmd *exec.Cmd) { cmd.Process.Signal(syscall.SIGTERM) },
		"SIGHUP":  func(_ *testing.T, _ *terminal, cmd *exec.Cmd) { cmd.Process.Signal(syscall.SIGHUP) },
	} {
		t.Run(name, func(t *testing.T) {
			term := newTerminal(t, 100, 24)
			before := term.settings(t)
			cmd := term.start(t, bperf("top", "-d", "0.1", fmt.Sprint(id)))
			term.awaitRaw(t, enterScreen)
			term.await(t, `bperf_test_scr`)
			if term.settings(t) == before {
				t.Error("keys are not read one by one")
			}
			if name == "q" {
				term.press(t, "/nothing")
				term.await(t, `No name has that in it`)
				term.press(t, "\x1b")
				term.await(t, `bperf_test_scr`)
				term.press(t, "\r")
				term.await(t, `(?s)BPF.*licence`)
				term.resize(t, 40, 8)
				term.await(t, `…`)
				term.press(t, " ")
				term.await(t, `paused`)
			}
			end(t, term, cmd)
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
			term.awaitRaw(t, leaveScreen)
			if after := term.settings(t); after != before {
				t.Errorf("the terminal was %+v, and is %+v", before, after)
			}
		})
	}
}

// TestTopFunctionsOnTerminal looks for the callers of a function of this process, and ends while it samples.
func TestTopFunctionsOnTerminal(t *testing.T) {
	require.NoKernel(t)
	require.Root(t)
	ended := make(chan struct{})
	var burner sync.WaitGroup
	burner.Go(func() { burn(ended) })
	defer burner.Wait()
	defer close(ended)
	term := newTerminal(t, 150, 24)
	before := term.settings(t)
	cmd := term.start(t, bperf("top", "-p", fmt.Sprint(os.Getpid()), "-e", "cpu-clock:u", "-d", "0.2", "-g"))
	term.await(t, `(?s)samples of cpu-clock:u.*cli\.burn`)
	term.press(t, "?")
	term.await(t, `any key back`)
	term.press(t, "x/cli.burn\r\r")
	term.await(t, `(?s)Callers, in %.*TestTopFunctionsOnTerminal`)
	term.press(t, "q")
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	term.awaitRaw(t, leaveScreen)
	if after := term.settings(t); after != before {
		t.Errorf("the terminal was %+v, and is %+v", before, after)
	}
}

// burn uses a CPU until a channel is closed.
//
//go:noinline
func burn(ended <-chan struct{}) (x uint64) {
	for {
		select {
		case <-ended:
			return x
		default:
			for range 100_000 {
				x = x*6364136223846793005 + 1442695040888963407
			}
		}
	}
}

// startJob starts bperf as the job of a shell, which says "stopped" or "ended" with the status, and continues it after a line of input. This
// needs a shell with job control: nobody could continue a process that is alone in its session, and the kernel does not stop it.
func (t *terminal) startJob(test *testing.T, args ...string) *exec.Cmd {
	test.Helper()
	shell := exec.Command("sh", append([]string{"-c", `set -m; "$@"; echo stopped $?; read line; fg >/dev/null; echo ended $?`,
		"sh", fmt.Sprintf("/proc/%d/exe", os.Getpid())}, args...)...)
	shell.Env = bperf().Env
	return t.start(test, shell)
}

// TestTopStops stops top by a key and by a signal. The terminal must be restored while it is stopped, and show the screen again afterwards.
func TestTopStops(t *testing.T) {
	require.AnyArch(t)
	require.Root(t)
	_, id := loadEmpty(t, "bperf_test_scr")
	for name, stop := range map[string]func(*testing.T, *terminal){
		"ctrl-z":  func(t *testing.T, term *terminal) { term.press(t, "\x1a") },
		"SIGTSTP": func(t *testing.T, term *terminal) { syscall.Kill(-term.foreground(t), syscall.SIGTSTP) },
	} {
		t.Run(name, func(t *testing.T) {
			term := newTerminal(t, 100, 24)
			before := term.settings(t)
			shell := term.startJob(t, "top", "-d", "0.1", fmt.Sprint(id))
			term.await(t, `bperf_test_scr`)
			stop(t, term)
			term.await(t, `stopped`)
			if term.settings(t) != before {
				t.Error("the terminal is not as it was before")
			}
			term.press(t, "\n")
			term.awaitRaw(t, enterScreen)
			term.await(t, `bperf_test_scr`)
			term.press(t, "q")
			term.await(t, `ended 0`)
			if err := shell.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestTopAlone runs top in its own session, where nobody could continue it. It must not stop.
func TestTopAlone(t *testing.T) {
	require.Root(t)
	_, id := loadEmpty(t, "bperf_test_scr")
	term := newTerminal(t, 100, 24)
	cmd := term.start(t, bperf("top", "-d", "0.1", fmt.Sprint(id)))
	term.await(t, `bperf_test_scr`)
	term.press(t, "\x1a/nothing")
	term.await(t, `No name has that in it`)
	term.press(t, "\x03")
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
