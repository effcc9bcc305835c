package bpfprog

import (
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// AddedByCounting is what it adds to a run of a BPF program that the kernel counts the runs, to the nanosecond: an empty program is
// loaded for some milliseconds, and run with and without that (BPF_PROG_TEST_RUN). It is 0 if it cannot be measured, as when somebody
// else lets the kernel count already.
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

// shortestRun is the shortest mean of several: what else the CPU does makes some longer.
func shortestRun(p *ebpf.Program) (shortest time.Duration, err error) {
	packet := make([]byte, 14) // the shortest that the kernel takes: an Ethernet header
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
