package offcpu

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/bperf/bperf/internal/procfs"
)

// Scheduler is where the functions of the scheduler are in the kernel's text; empty where that is not known.
type Scheduler struct{ start, end uint64 }

// FindScheduler finds the functions of the scheduler, which the kernel keeps together so that it can tell where a task waits (in_sched_functions
// in kernel/sched/core.c). The range is empty where addresses are hidden.
func FindScheduler(kallsyms string) (Scheduler, error) {
	f, err := os.Open(kallsyms)
	if errors.Is(err, fs.ErrNotExist) {
		return Scheduler{}, nil
	}
	if err != nil {
		return Scheduler{}, fmt.Errorf("find the functions of the scheduler: %w", err)
	}
	defer f.Close()
	var s Scheduler
	for e, err := range procfs.KernelSymbols(f) {
		if err != nil {
			return Scheduler{}, fmt.Errorf("find the functions of the scheduler: %w", err)
		}
		switch {
		case e.Type != 'T':
		case e.Name == "__sched_text_start":
			s.start = e.Address
		case e.Name == "__sched_text_end":
			s.end = e.Address
		}
		if s.end != 0 {
			break
		}
	}
	return s, nil
}

// Outside is the part of a stack outside of these functions. What was called by them, the BPF program, is left out, too.
func (s Scheduler) Outside(stack []uint64) []uint64 {
	first := 0
	for first < len(stack) && !s.contains(stack[first]) {
		first++
	}
	if first == len(stack) {
		return stack // they are not there, or not known
	}
	for first < len(stack) && s.contains(stack[first]) {
		first++
	}
	return stack[first:]
}

func (s Scheduler) contains(address uint64) bool { return address >= s.start && address < s.end }
