package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/bperf/bperf/test/apt"
)

// pythonLoad sorts with a function of Python's, so that its stacks lead through the interpreter's C functions, which have no frame pointers.
const pythonLoad = `
import random

def key(x):
    return x * x % 7

def rank(numbers):
    return sorted(numbers, key=key)

def work(n):
    return [rank([random.random() for _ in range(50)]) for _ in range(n)]

while True:
    work(20)
`

// unwinding is the cost of a recording with user stacks and of its report.
type unwinding struct {
	cpu     time.Duration
	samples uint64
	size    int64 // bytes
}

var unwindingMetrics = []metric[unwinding]{
	{cpu, func(u unwinding) float64 { return u.cpu.Seconds() * 1e3 }},
	{"CPU ms/1000", func(u unwinding) float64 { return u.cpu.Seconds() * 1e6 / float64(u.samples) }},
	{"samples", func(u unwinding) float64 { return float64(u.samples) }},
	{"bytes/sample", func(u unwinding) float64 { return float64(u.size) / float64(u.samples) }},
}

// unwind compares the CPU time of recording a program without frame pointers for a while, and of the report: user stacks that the kernel unwinds,
// beside stacks that perf's report unwinds.
func (b *bench) unwind(long time.Duration) error {
	if err := apt.Need(map[string]string{b.perf: "linux-perf"}); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bperf-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	load := exec.Command("python3", "-c", pythonLoad)
	if err := load.Start(); err != nil {
		return err
	}
	defer func() { _, _ = load.Process.Kill(), load.Wait() }() // its status is that of the kill
	var ours, theirs []unwinding
	for range b.runs {
		for _, of := range []struct {
			program, callchains string
			all                 *[]unwinding
		}{{b.bperf, "bpf", &ours}, {b.perf, "dwarf", &theirs}} {
			u, err := unwindOnce(filepath.Join(dir, "perf.data"), of.program, of.callchains, load.Process.Pid, long)
			if err != nil {
				return err
			}
			*of.all = append(*of.all, u)
		}
	}
	printHeader("perf")
	name := fmt.Sprintf("record -F 3999, %v, and report", long)
	for _, m := range unwindingMetrics {
		a, p := m.median(ours), m.median(theirs)
		fmt.Printf("%-40s %-12s %10.2f %10.2f %6.2fx", name, m.unit, a, p, a/p)
		if m.unit == cpu {
			printAim(a/p, 0.2)
		}
		fmt.Println()
		name = ""
	}
	return nil
}

func unwindOnce(file, program, callchains string, pid int, long time.Duration) (u unwinding, err error) {
	record, err := measure([]string{program, "record", "-q", "-e", "cpu-clock", "-F", "3999", "--call-graph", callchains, "-o", file,
		"-p", strconv.Itoa(pid), "sleep", strconv.FormatFloat(long.Seconds(), 'f', -1, 64)})
	if err != nil {
		return u, err
	}
	report, err := measure([]string{program, "report", "--no-children", "-g", "--stdio", "-i", file})
	if err != nil {
		return u, err
	}
	r, err := tally(file)
	if err == nil && r.samples == 0 {
		err = errors.New("there are no samples")
	}
	if err != nil {
		return u, fmt.Errorf("%s record --call-graph %s: %w", program, callchains, err)
	}
	return unwinding{cpu: record.cpu + report.cpu, samples: r.samples, size: r.size}, os.Remove(file)
}
