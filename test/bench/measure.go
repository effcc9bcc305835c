package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cost is the cost of one run of a program, including the processes that it started and waited for.
type cost struct {
	wall, cpu time.Duration
	stderr    []byte
	peak, own int64 // KiB of the process itself: peak memory, and anonymous memory at its end
}

// costs are the costs of several runs.
type costs []cost

// Units of metrics.
const (
	wall = "wall ms"
	cpu  = "CPU ms"
	peak = "peak RSS MiB"
)

// metrics are the printed metrics of costs.
var metrics = []metric[cost]{
	{wall, func(c cost) float64 { return c.wall.Seconds() * 1e3 }},
	{cpu, func(c cost) float64 { return c.cpu.Seconds() * 1e3 }},
	{peak, func(c cost) float64 { return float64(c.peak) / 1024 }},
	{"end anon MiB", func(c cost) float64 { return float64(c.own) / 1024 }},
}

type metric[T any] struct {
	unit string
	of   func(T) float64
}

func (m metric[T]) median(all []T) float64 {
	values := make([]float64, len(all))
	for i, one := range all {
		values[i] = m.of(one)
	}
	return median(values)
}

func median(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

// alternate runs two commands in turns, so that other load on the machine affects both. It does not measure the first run of each.
func alternate(runs int, a, b []string) (ofA, ofB costs, err error) {
	for i := range runs + 1 {
		costA, err := measure(a)
		if err != nil {
			return nil, nil, err
		}
		costB, err := measure(b)
		if err != nil {
			return nil, nil, err
		}
		if i > 0 {
			ofA, ofB = append(ofA, costA), append(ofB, costB)
		}
	}
	return ofA, ofB, nil
}

// measure runs a command and returns its cost. It traces the process to read its memory just before the end, because the peak that wait4(2)
// returns is never less than that of the process that started the command.
func measure(args []string) (c cost, err error) {
	runtime.LockOSThread() // the tracer is a thread
	defer runtime.UnlockOSThread()
	var stderr bytes.Buffer
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stderr = &stderr
	cmd.SysProcAttr = &unix.SysProcAttr{Ptrace: true}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, &stderr)
		}
	}()
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return cost{}, err
	}
	usage, err := c.follow(cmd.Process.Pid)
	if err != nil {
		return cost{}, errors.Join(err, cmd.Process.Kill())
	}
	c.wall = time.Since(start)
	c.cpu = time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	cmd.Wait() // waits until standard error is copied; fails because follow has reaped the child
	c.stderr = stderr.Bytes()
	return c, nil
}

// follow traces a process from the stop at its start to its end.
func (c *cost) follow(pid int) (usage unix.Rusage, err error) {
	var status unix.WaitStatus
	for {
		if _, err := unix.Wait4(pid, &status, 0, &usage); err != nil {
			return usage, err
		}
		signal := 0
		switch {
		case status.Exited() && status.ExitStatus() == 0:
			return usage, nil
		case status.Exited(), status.Signaled():
			return usage, fmt.Errorf("it ended with %v", status)
		case status.TrapCause() == unix.PTRACE_EVENT_EXIT:
			if err := c.readMemory(pid); err != nil {
				return usage, err
			}
		case status.StopSignal() == unix.SIGTRAP: // its start
			if err := unix.PtraceSetOptions(pid, unix.PTRACE_O_TRACEEXIT|unix.PTRACE_O_EXITKILL); err != nil {
				return usage, err
			}
		default:
			signal = int(status.StopSignal())
		}
		// ESRCH: another thread has ended the process while this one was stopped for a signal.
		if err := unix.PtraceCont(pid, signal); err != nil && err != unix.ESRCH {
			return usage, err
		}
	}
}

// readMemory reads /proc/PID/status (https://docs.kernel.org/filesystems/proc.html, 1.1).
func (c *cost) readMemory(pid int) error {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(status)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		n, _ := strconv.ParseInt(f[1], 10, 64)
		switch f[0] {
		case "VmHWM:":
			c.peak = n
		case "RssAnon:":
			c.own = n
		}
	}
	if c.peak == 0 || c.own == 0 {
		return fmt.Errorf("/proc/%d/status tells no memory", pid)
	}
	return nil
}
