package offcpu

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/bperf/bperf/internal/procfs"
)

// Scheduler is the address range of the scheduler's functions in the kernel. It is empty if the range is unknown.
type Scheduler struct{ start, end uint64 }

// FindScheduler finds the scheduler's functions in the file kallsyms, usually /proc/kallsyms. The kernel places them in one range so that it
// can find the caller that waits (in_sched_functions in kernel/sched/core.c). The range is empty if addresses are hidden or the file does
// not exist.
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

// Outside returns the stack without the scheduler's functions and without the frames that they called, which are the BPF program's.
func (s Scheduler) Outside(stack []uint64) []uint64 {
	first := 0
	for first < len(stack) && !s.contains(stack[first]) {
		first++
	}
	if first == len(stack) {
		return stack // without scheduler functions, or the range is unknown
	}
	for first < len(stack) && s.contains(stack[first]) {
		first++
	}
	return stack[first:]
}

func (s Scheduler) contains(address uint64) bool { return address >= s.start && address < s.end }
