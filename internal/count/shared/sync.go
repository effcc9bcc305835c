package shared

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"

	"github.com/cilium/ebpf"

	"github.com/bperf/bperf/internal/target"
)

// What the program sync is to bring up to date, as in counters.bpf.c.
const (
	syncTracks = 1 // who runs on the CPU, and what was counted for it
	syncSystem = 2 // what was counted on the CPU
	syncForget = 4 // where the count of the CPU began: another perf event goes on
)

func onlineCPUs() ([]int, error) {
	online, err := target.Spec{System: true}.Resolve()
	return online.CPUs, err
}

// testRunOnCPU is BPF_F_TEST_RUN_ON_CPU of include/uapi/linux/bpf.h (Linux 5.10).
const testRunOnCPU = 1

// syncCPUs runs the program sync on CPUs. One that has gone offline keeps the sums that it has.
func (o *objects) syncCPUs(cpus []int, what, events uint64) error {
	args := []uint64{what, events}
	for _, cpu := range cpus {
		for {
			result, err := o.programs[countersProgSync].Run(&ebpf.RunOptions{Context: args, CPU: uint32(cpu), Flags: testRunOnCPU})
			if errors.Is(err, syscall.ENXIO) {
				break
			}
			if err != nil {
				return fmt.Errorf("read the shared counters of CPU %d: %w%s", cpu, err, permission(err))
			}
			if result == 0 {
				break
			}
			runtime.Gosched() // another session reads there at this moment
		}
	}
	return nil
}
