package record

import (
	"fmt"
	"slices"

	"github.com/bperf/bperf/internal/target"
)

// cpuChanges are the CPUs that come and go, until over is closed.
func (s *session) cpuChanges(over <-chan struct{}) <-chan target.CPUChange {
	changes := make(chan target.CPUChange)
	go func() {
		for {
			change, err := s.cpus.Next()
			if err != nil { // it was closed, or could not be opened
				return
			}
			select {
			case changes <- change:
			case <-over:
				return
			}
		}
	}()
	return changes
}

// tellCPU says that a CPU has come of which nothing is recorded. The events of a CPU end when it goes. Others have no place in the header of a file,
// which lists their IDs, and perf refuses those that it has not been told of there.
func (s *session) tellCPU(change target.CPUChange) {
	t := s.target
	switch {
	case s.cfg.PerThread: // its events are of no CPU
	case change.Number == 0:
		s.cfg.Notify("The kernel's messages of CPUs that have come online were lost: such CPUs are not recorded. Start again to record them")
	case change.Online && (s.cfg.Target.CPUs == nil || slices.Contains(t.CPUs, change.CPU) || slices.Contains(t.Offline, change.CPU)):
		s.cfg.Notify(fmt.Sprintf("CPU %d has come online and is not recorded. Start again to record it", change.CPU))
	}
}
