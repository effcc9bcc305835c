package shared

import (
	"cmp"
	"fmt"
	"os"
	"slices"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/internal/target"
)

// plan is what a session counts: what its caller asked for, and what that means on this machine.
type plan struct {
	where    Where
	target   target.Target
	options  Options
	cgroupV1 bool
	units    bool  // the target has tasks or cgroups, not CPUs
	cpus     []int // of the target, with LaterCPUs also the offline ones
}

// opensOn returns the online CPUs on which an event must be open. For tasks and cgroups these are all CPUs of its PMU, because tasks
// may run on any of them.
func (p *plan) opensOn(e *event.Event, cpus []int) ([]int, error) {
	if p.units {
		cpus = e.CPUs
	}
	online, err := procfs.OnlineCPUs()
	if err != nil || cpus == nil {
		return online, err
	}
	return slices.DeleteFunc(online, func(cpu int) bool { return !slices.Contains(cpus, cpu) }), nil
}

// allCPUs returns the CPUs of the target, with LaterCPUs also the offline ones.
func (p *plan) allCPUs() ([]int, error) {
	if !p.options.LaterCPUs {
		return p.target.CPUs, nil
	}
	offline, err := procfs.OfflineCPUs()
	return slices.Sorted(slices.Values(slices.Concat(p.target.CPUs, offline))), err
}

func (p *plan) description() description {
	return description{PID: os.Getpid(), Command: os.Args, Target: cmp.Or(p.where.Target, describeTarget(p.target))}
}

func describeTarget(t target.Target) string {
	switch {
	case len(t.Threads) == 1:
		return fmt.Sprintf("thread %d (%s)", t.Threads[0].TID, t.Threads[0].Comm)
	case len(t.Threads) > 1:
		return fmt.Sprintf("%d threads", len(t.Threads))
	case len(t.Cgroups) == 1:
		return "cgroup " + t.Cgroups[0].Name
	case len(t.Cgroups) > 1:
		return fmt.Sprintf("%d cgroups", len(t.Cgroups))
	default:
		return "CPU " + procfs.FormatCPUList(t.CPUs)
	}
}

// cellsOf makes the cells of a session's events, events in order.
func (p *plan) cellsOf(events []counted) (cells []count.Cell) {
	for i, e := range events {
		if e.err != nil {
			continue
		}
		cell := count.Cell{Event: i, CPU: count.None, Thread: count.None, Cgroup: count.None, Program: count.None}
		switch {
		case len(p.target.Threads) > 0 && p.options.PerThread:
			for thread := range p.target.Threads {
				cell.Thread = thread
				cells = append(cells, cell)
			}
		case len(p.target.Threads) > 0:
			cells = append(cells, cell)
		default:
			for cgroup := range max(len(p.target.Cgroups), 1) {
				if len(p.target.Cgroups) > 0 {
					cell.Cgroup = cgroup
				}
				for _, cpu := range e.cpus {
					cell.CPU = cpu
					cells = append(cells, cell)
				}
			}
		}
	}
	return slices.Clip(cells)
}

// unitOf returns the unit that a cell of cellsOf belongs to.
func unitOf(cell count.Cell) uint32 { return uint32(max(cell.Thread, cell.Cgroup, 0)) }
