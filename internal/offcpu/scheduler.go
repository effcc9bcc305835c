package offcpu

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/bperf/bperf/internal/symbol/kernel"
)

// findScheduler finds the functions of the scheduler, which the kernel keeps together so that it can tell where a task waits (in_sched_functions
// in kernel/sched/core.c). The range is empty where addresses are hidden.
func findScheduler(kallsyms string) (textRange, error) {
	f, err := os.Open(kallsyms)
	if errors.Is(err, fs.ErrNotExist) {
		return textRange{}, nil
	}
	if err != nil {
		return textRange{}, fmt.Errorf("find the functions of the scheduler: %w", err)
	}
	defer f.Close()
	var r textRange
	for e, err := range kernel.Entries(f) {
		if err != nil {
			return textRange{}, fmt.Errorf("find the functions of the scheduler: %w", err)
		}
		switch {
		case e.Type != 'T':
		case e.Name == "__sched_text_start":
			r.start = e.Address
		case e.Name == "__sched_text_end":
			r.end = e.Address
		}
		if r.end != 0 {
			break
		}
	}
	return r, nil
}

// outside is the part of a stack outside of these functions. What was called by them, the BPF program, is left out, too.
func (r textRange) outside(stack []uint64) []uint64 {
	first := 0
	for first < len(stack) && !r.contains(stack[first]) {
		first++
	}
	if first == len(stack) {
		return stack // they are not there, or not known
	}
	for first < len(stack) && r.contains(stack[first]) {
		first++
	}
	return stack[first:]
}

func (r textRange) contains(address uint64) bool { return address >= r.start && address < r.end }
