package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
)

// Environment variables that turn a new process of this program into a helper. Their value is a number. The helper holds that many threads or
// programs until its standard input ends.
const (
	threadsVariable  = "BPERF_BENCH_THREADS"  // idle threads
	programsVariable = "BPERF_BENCH_PROGRAMS" // BPF programs
)

// helperProcess is a helper: another process of this program.
type helperProcess struct {
	cmd   *exec.Cmd
	stdin io.Closer
}

// startHelper starts a helper and waits until it holds n threads or programs.
func startHelper(variable string, n int) (*helperProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", variable, n))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &helperProcess{cmd, stdin}
	if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		return nil, errors.Join(fmt.Errorf("start a process with %s=%d: %w", variable, n, err), p.stop())
	}
	return p, nil
}

func (p *helperProcess) pid() int { return p.cmd.Process.Pid }

func (p *helperProcess) stop() error { return errors.Join(p.stdin.Close(), p.cmd.Wait()) }

// helper does the work of a helper if this process is one. It returns true when that work is done.
func helper() bool {
	if n, err := strconv.Atoi(os.Getenv(threadsVariable)); err == nil {
		holdThreads(n)
		return true
	}
	if n, err := strconv.Atoi(os.Getenv(waysVariable)); err == nil {
		if err := spend(uint(n)); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return true
	}
	if os.Getenv(busyVariable) != "" {
		fmt.Fprintln(os.Stderr, "bench:", spin())
		os.Exit(1)
	}
	n, err := strconv.Atoi(os.Getenv(programsVariable))
	if err != nil {
		return false
	}
	if err := holdPrograms(n); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	return true
}

// hold reports to startHelper that the helper is ready, and waits for the end of standard input.
func hold() {
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin)
}

func holdThreads(n int) {
	started := make(chan struct{})
	for range n {
		go func() {
			runtime.LockOSThread()
			started <- struct{}{}
			select {}
		}()
	}
	for range n {
		<-started
	}
	hold()
}
