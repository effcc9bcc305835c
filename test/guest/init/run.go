package main

import (
	"io"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/test/guest/job"
)

// run runs a command in a new session, without input, and returns its wait status.
func run(c job.Command, output io.Writer) (unix.WaitStatus, error) {
	program, err := exec.LookPath(c.Args[0])
	if err != nil {
		return 0, err
	}
	// The command's output is a pipe, as in go test, and not a terminal.
	r, w, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer r.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer null.Close()

	pid, err := syscall.ForkExec(program, c.Args, &syscall.ProcAttr{
		Dir:   c.Dir,
		Env:   os.Environ(),
		Files: []uintptr{null.Fd(), w.Fd(), w.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	w.Close()
	if err != nil {
		return 0, err
	}
	copied := make(chan error, 1)
	go func() {
		_, err := io.Copy(output, r)
		copied <- err
	}()
	status, err := reap(pid)
	if err != nil {
		return 0, err
	}
	// Processes that the command left behind would hold the pipe open.
	if err := unix.Kill(-1, unix.SIGKILL); err != nil && err != unix.ESRCH {
		return 0, err
	}
	return status, <-copied
}

// reap waits for a process. Until then it also reaps orphans, which is the duty of the first process.
func reap(pid int) (unix.WaitStatus, error) {
	for {
		var status unix.WaitStatus
		got, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, err
		case got == pid:
			return status, nil
		}
	}
}
