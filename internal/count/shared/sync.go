package shared

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"

	"github.com/bperf/bperf/internal/kernel"
)

// What the program sync is to bring up to date, as in counters.bpf.c.
const (
	syncTracks = 1 // who runs on the CPU, and what was counted for it
	syncSystem = 2 // what was counted on the CPU
	syncForget = 4 // where the count of the CPU began: another perf event goes on
)

// syncCPUs runs the program sync on CPUs. One that has gone offline keeps the sums that it has.
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
			runtime.Gosched() // another session reads there at this moment
		}
	}
	return nil
}
