package bpfprog

import (
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// AddedByCounting returns the time that counting runs adds to each run of a BPF program, with a resolution of 1 ns. It loads an empty program
// for some milliseconds, and runs it with and without counting (BPF_PROG_TEST_RUN). It returns 0 if there is no difference to measure, for
// example because the kernel counts for another process already.
func AddedByCounting() (time.Duration, error) {
	empty, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "bperf_empty", Type: ebpf.SocketFilter,
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}})
	if err != nil {
		return 0, fmt.Errorf("load an empty BPF program: %w%s", err, remedy(err))
	}
	defer empty.Close()
	without, err := shortestRun(empty)
	if err != nil {
		return 0, err
	}
	counting, err := enableStats()
	if err != nil {
		return 0, err
	}
	defer counting.Close()
	with, err := shortestRun(empty)
	return max(with-without, 0), err
}

// shortestRun returns the shortest of several mean run times, because other work of the CPU makes some longer.
func shortestRun(p *ebpf.Program) (shortest time.Duration, err error) {
	packet := make([]byte, 14) // the shortest packet that the kernel accepts: an Ethernet header
	for i := range 8 {
		_, mean, err := p.Benchmark(packet, 5000, func() {})
		if err != nil {
			return 0, fmt.Errorf("run an empty BPF program: %w", err)
		}
		if i == 0 || mean < shortest {
			shortest = mean
		}
	}
	return shortest, nil
}
