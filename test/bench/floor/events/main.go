// Events opens, enables, reads and closes the perf events of a row of the bench, and does nothing else: what the kernel takes for them
// alone. It is one thread with its own table of files, which therefore grows without waiting for RCU. It moves to the CPU of an event, so
// that the kernel need not interrupt that CPU.
//
//	events threads PID      task-clock of each thread of a process
//	events cgroups DIR...   ten software events of each cgroup, on each CPU
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/perfdata"
)

func main() {
	runtime.LockOSThread()
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "events:", err)
		os.Exit(1)
	}
}

// planned is an event that is to be opened.
type planned struct {
	attr *perfdata.Attr
	at   perfevent.Where
}

func run(kind string, of []string) error {
	var all []planned
	var err error
	switch kind {
	case "threads":
		all, err = planThreads(of[0])
	case "cgroups":
		all, err = planCgroups(of)
	default:
		err = fmt.Errorf("%s: neither threads nor cgroups", kind)
	}
	if err != nil {
		return err
	}
	// The runtime opens files of its own with the first file, and other threads use them.
	if err := unix.Unshare(unix.CLONE_FILES); err != nil {
		return fmt.Errorf("unshare the table of files: %w", err)
	}
	events := make([]*perfevent.Event, len(all))
	here := place(perfevent.AnyCPU)
	for i, p := range all {
		here.move(p.at.CPU)
		if events[i], err = perfevent.Open(p.attr, p.at); err != nil {
			return fmt.Errorf("open event %d of %+v: %w", p.attr.Config, p.at, err)
		}
	}
	for _, step := range []func(*perfevent.Event) error{
		(*perfevent.Event).Enable,
		func(e *perfevent.Event) error { _, err := e.Read(); return err },
		(*perfevent.Event).Close,
	} {
		for i, e := range events {
			here.move(all[i].at.CPU)
			if err := step(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// place is the CPU that this thread was moved to.
type place int

// move moves this thread to a CPU, if it is not there. If that fails, the thread only takes longer.
func (p *place) move(cpu int) {
	if place(cpu) == *p {
		return
	}
	var only unix.CPUSet
	only.Set(cpu)
	_ = unix.SchedSetaffinity(0, &only)
	*p = place(cpu)
}

// software returns a software event as stat counts it.
func software(config uint64, flags perfdata.AttrFlags) *perfdata.Attr {
	return &perfdata.Attr{Type: perfdata.TypeSoftware, Config: config, Flags: perfdata.AttrDisabled | flags,
		ReadFormat: perfevent.ReadFormatTimes}
}

func planThreads(process string) (all []planned, err error) {
	pid, err := strconv.Atoi(process)
	if err != nil {
		return nil, err
	}
	threads, err := procfs.Threads(os.DirFS("/proc"), pid)
	if err != nil {
		return nil, err
	}
	attr := software(perfdata.SoftwareTaskClock, perfdata.AttrInherit)
	for _, tid := range threads {
		all = append(all, planned{attr, perfevent.Where{Thread: tid, CPU: perfevent.AnyCPU}})
	}
	return all, nil
}

// planCgroups leaves the directories of the cgroups open.
func planCgroups(dirs []string) (all []planned, err error) {
	cpus, err := procfs.OnlineCPUs()
	if err != nil {
		return nil, err
	}
	groups := make([]int, len(dirs))
	for i, dir := range dirs {
		if groups[i], err = unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
	}
	for _, cpu := range cpus {
		for _, cgroup := range groups {
			for _, config := range []uint64{0, 1, 2, 3, 4, 5, 6, 7, 8, perfdata.SoftwareBPFOutput} {
				all = append(all, planned{software(config, 0), perfevent.Where{CPU: cpu, Cgroup: cgroup, UseCgroup: true}})
			}
		}
	}
	return all, nil
}
