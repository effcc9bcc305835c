package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/bperf/bperf/test/apt"
)

// top compares the CPU time of live profiles of functions that last this long, beside a shell that keeps a CPU busy.
func (b *bench) top(long time.Duration) error {
	if err := apt.Need(map[string]string{b.perf: "linux-perf"}); err != nil {
		return err
	}
	load := exec.Command("sh", "-c", "while :; do :; done")
	if err := load.Start(); err != nil {
		return err
	}
	defer func() { _, _ = load.Process.Kill(), load.Wait() }() // its status is that of the kill
	sampling := []string{"--stdio", "-e", "cpu-clock", "-F", "99"}
	var ours, theirs []time.Duration
	for range b.runs {
		our, err := live(long, append([]string{b.bperf, "top", "--by", "function"}, sampling...))
		if err != nil {
			return err
		}
		their, err := live(long, append([]string{b.perf, "top"}, sampling...))
		if err != nil {
			return err
		}
		ours, theirs = append(ours, our), append(theirs, their)
	}
	printHeader("perf")
	m := metric[time.Duration]{cpu, func(d time.Duration) float64 { return d.Seconds() * 1e3 }}
	a, p := m.median(ours), m.median(theirs)
	fmt.Printf("%-40s %-12s %10.2f %10.2f %6.2fx", fmt.Sprintf("top of functions, 99 Hz, %v", long), m.unit, a, p, a/p)
	printAim(a/p, 0.33)
	fmt.Println()
	return nil
}

// live returns the CPU time of a command that runs until it gets SIGINT. Its standard input is a pipe that stays open: at the end of its standard
// input, perf 6.1 uses a whole CPU.
func live(long time.Duration, args []string) (time.Duration, error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return 0, err
	}
	defer stdin.Close()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	time.Sleep(long)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		return 0, err
	}
	if err := cmd.Wait(); err != nil {
		return 0, fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
}
