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

// Variables which make this program, started anew, one that has so many of something until its standard input ends.
const (
	threadsVariable  = "BPERF_BENCH_THREADS"  // that do nothing
	programsVariable = "BPERF_BENCH_PROGRAMS" // of BPF
)

// helperProcess is this program, started anew.
type helperProcess struct {
	cmd   *exec.Cmd
	stdin io.Closer
}

// startHelper waits until it has them.
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

// helper is the other side of startHelper: it reports whether this process was one, and is at its end.
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

// hold waits for the end of standard input, after it has told that all is there.
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
