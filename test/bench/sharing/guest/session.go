package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// engine is a way to count.
type engine int

const (
	direct   engine = iota // bperf with separate counters
	shared                 // bperf --bpf-counters
	upstream               // perf --bpf-counters
)

func (e engine) String() string { return [...]string{"direct", "shared", "upstream"}[e] }

// stat returns the command line of the engine's sessions.
func (e engine) stat() []string {
	return [...][]string{
		{"bperf", "stat"},
		{"bperf", "stat", "--bpf-counters"},
		{"perf", "stat", "--bpf-counters"},
	}[e]
}

// wait returns the flags that make a session wait for the command "enable". Upstream's sessions cannot wait: with shared counters they
// acknowledge "enable" without effect.
func (e engine) wait() []string {
	if e == upstream {
		return nil
	}
	return []string{"-D", "-1"}
}

// session is a `stat` in the background.
type session struct {
	cmd     *exec.Cmd
	control *os.File // receives commands
	acks    *os.File // has an answer for each command that was carried out
	output  string   // file with the counts
	said    string   // file with all other output
}

// startSession starts `stat`.
func startSession(dir string, e engine, flags ...string) (*session, error) {
	dir, err := os.MkdirTemp(dir, "session-")
	if err != nil {
		return nil, err
	}
	commands, control, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer commands.Close()
	acks, answers, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer answers.Close()
	s := &session{control: control, acks: acks, output: filepath.Join(dir, "counts"), said: filepath.Join(dir, "said")}
	said, err := os.Create(s.said)
	if err != nil {
		return nil, err
	}
	defer said.Close()

	args := slices.Concat(e.stat(), []string{"-x,", "-o", s.output, "--control", "fd:3,4"}, flags)
	s.cmd = exec.Command(args[0], args[1:]...)
	s.cmd.Stdout, s.cmd.Stderr = said, said
	s.cmd.ExtraFiles = []*os.File{commands, answers}
	return s, s.cmd.Start()
}

// command lets the session carry out a command of --control. The session carries out no command, not even "ping", before it counts or, with -D,
// before it is ready to count.
func (s *session) command(command string) error {
	if err := s.send(command); err != nil {
		return err
	}
	return s.await()
}

func (s *session) send(command string) error {
	if _, err := s.control.WriteString(command + "\n"); err != nil {
		return s.reason()
	}
	return nil
}

func (s *session) await() error {
	if _, err := s.acks.Read(make([]byte, 16)); err != nil {
		return s.reason()
	}
	return nil
}

// freeze stops the session's process. Its counters and programs in the kernel keep running.
func (s *session) freeze() error {
	if err := s.cmd.Process.Signal(unix.SIGSTOP); err != nil {
		return s.reason()
	}
	if err := unix.Waitid(unix.P_PID, s.cmd.Process.Pid, nil, unix.WSTOPPED, nil); err != nil {
		return s.reason()
	}
	return nil
}

func (s *session) thaw() error { return s.cmd.Process.Signal(unix.SIGCONT) }

// end ends the session and returns what it counted.
func (s *session) end() (counts, error) {
	if err := s.cmd.Process.Signal(unix.SIGINT); err != nil {
		return nil, s.reason()
	}
	s.cmd.Wait() // the status is that of an interrupted process
	s.control.Close()
	s.acks.Close()
	printed, err := os.ReadFile(s.output)
	if err != nil {
		return nil, s.reason()
	}
	return parseCounts(string(printed))
}

// reason returns the error of a session that has ended: its exit status, and the first line of its output.
func (s *session) reason() error {
	s.cmd.Wait()
	said, err := os.ReadFile(s.said)
	line, _, _ := strings.Cut(string(said), "\n")
	return errors.Join(fmt.Errorf("%s: %s", s.cmd.ProcessState, line), err)
}
