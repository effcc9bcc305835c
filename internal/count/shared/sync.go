package shared

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"

	"github.com/bperf/bperf/internal/kernel"
)

// The work of the program sync, as in counters.bpf.c.
const (
	syncTracks = 1 // update the CPU's tracks, and the sums of the nodes that it counts for
	syncSystem = 2 // update the sums of the CPU
	syncForget = 4 // reset the last readings of the CPU, because a new perf event begins at 0
)

// syncCPUs runs the program sync on CPUs. A CPU that is offline keeps its sums.
func (o *objects) syncCPUs(cpus []int, what, events uint64) error {
	args := []uint64{what, events}
	for _, cpu := range cpus {
		for {
			result, err := kernel.RunOnCPU(o.programs[countersProgSync], cpu, args)
			if errors.Is(err, syscall.ENXIO) {
				break
			}
			if err != nil {
				return fmt.Errorf("read the shared counters of CPU %d: %w%s", cpu, err, permission(err))
			}
			if result == 0 {
				break
			}
			runtime.Gosched() // another program changes the CPU's state at this moment
		}
	}
	return nil
}
