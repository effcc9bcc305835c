package main

import (
	"bytes"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// cost is what one run of a program took, with all that it ran and waited for.
type cost struct {
	wall, cpu time.Duration
	peak      int64 // KiB of the largest process
}

// costs are those of several runs.
type costs []cost

// metrics are what is printed of costs.
var metrics = []metric{
	{"wall ms", func(c cost) float64 { return c.wall.Seconds() * 1e3 }},
	{"CPU ms", func(c cost) float64 { return c.cpu.Seconds() * 1e3 }},
	{"peak MiB", func(c cost) float64 { return float64(c.peak) / 1024 }},
}

type metric struct {
	unit string
	of   func(cost) float64
}

func (cs costs) median(m metric) float64 {
	values := make([]float64, len(cs))
	for i, c := range cs {
		values[i] = m.of(c)
	}
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

// alternate runs two programs with the same arguments in turns, so that what else the machine does meets both. A first
// run of each is not measured.
func alternate(runs int, a, b string, args []string) (ofA, ofB costs, err error) {
	for i := range runs + 1 {
		costA, err := measure(a, args)
		if err != nil {
			return nil, nil, err
		}
		costB, err := measure(b, args)
		if err != nil {
			return nil, nil, err
		}
		if i > 0 {
			ofA, ofB = append(ofA, costA), append(ofB, costB)
		}
	}
	return ofA, ofB, nil
}

func measure(program string, args []string) (cost, error) {
	var stderr bytes.Buffer
	cmd := exec.Command(program, args...)
	cmd.Stderr = &stderr
	start := time.Now()
	if err := cmd.Run(); err != nil {
		return cost{}, fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, &stderr)
	}
	return cost{
		wall: time.Since(start),
		cpu:  cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(),
		peak: cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss,
	}, nil
}
