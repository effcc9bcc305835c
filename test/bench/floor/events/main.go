// Events opens, enables, reads and closes the perf events of a row of the bench, and does nothing else: what the kernel takes for them
// alone. It is one thread with its own table of files, which therefore grows without waiting for RCU; with -shared, it shares the table with
// the other threads that each Go program has. It moves to the CPU of an event, so that the kernel need not interrupt that CPU.
//
//	events [-shared] threads PID      task-clock of each thread of a process
//	events [-shared] cgroups DIR...   ten software events of each cgroup, on each CPU
package main

import (
	"flag"
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
	shared := flag.Bool("shared", false, "share the table of files with other threads")
	flag.Parse()
	if err := run(flag.Arg(0), flag.Args()[1:], *shared); err != nil {
		fmt.Fprintln(os.Stderr, "events:", err)
		os.Exit(1)
	}
}

// planned is an event that is to be opened, or is open.
type planned struct {
	attr  *perfdata.Attr
	at    perfevent.Where
	event *perfevent.Event
}

// steps are what is done with the events, one step after the other with all of them.
var steps = []func(*planned) error{
	func(p *planned) (err error) {
		if p.event, err = perfevent.Open(p.attr, p.at); err != nil {
			return fmt.Errorf("open event %d of %+v: %w", p.attr.Config, p.at, err)
		}
		return nil
	},
	func(p *planned) error { return p.event.Enable() },
	func(p *planned) error { _, err := p.event.Read(); return err },
	func(p *planned) error { return p.event.Close() },
}

func run(kind string, of []string, shared bool) error {
	var rounds [][]planned // one for each CPU, or one for all threads
	var err error
	switch kind {
	case "threads":
		rounds, err = planThreads(of[0])
	case "cgroups":
		rounds, err = planCgroups(of)
	default:
		err = fmt.Errorf("%s: neither threads nor cgroups", kind)
	}
	if err != nil {
		return err
	}
	if shared {
		n := 0
		for _, round := range rounds {
			n += len(round)
		}
		perfevent.ReserveFiles(n)
	} else if err := unix.Unshare(unix.CLONE_FILES); err != nil { // after the first files: the runtime opens some of its own with them
		return fmt.Errorf("unshare the table of files: %w", err)
	}
	for _, step := range steps {
		for _, round := range rounds {
			if err := each(round, step); err != nil {
				return err
			}
		}
	}
	return nil
}

// each takes a step with each event of a round, on the CPU of the round if there is one.
func each(round []planned, step func(*planned) error) error {
	all := func() error {
		for i := range round {
			if err := step(&round[i]); err != nil {
				return err
			}
		}
		return nil
	}
	if len(round) == 0 || round[0].at.CPU == perfevent.AnyCPU {
		return all()
	}
	return perfevent.OnCPU(round[0].at.CPU, all)
}

// software returns a software event as stat counts it.
func software(config uint64, flags perfdata.AttrFlags) *perfdata.Attr {
	return &perfdata.Attr{Type: perfdata.TypeSoftware, Config: config, Flags: perfdata.AttrDisabled | flags,
		ReadFormat: perfevent.ReadFormatTimes}
}

func planThreads(process string) ([][]planned, error) {
	pid, err := strconv.Atoi(process)
	if err != nil {
		return nil, err
	}
	threads, err := procfs.Threads(os.DirFS("/proc"), pid)
	if err != nil {
		return nil, err
	}
	attr := software(perfdata.SoftwareTaskClock, perfdata.AttrInherit)
	var all []planned
	for _, tid := range threads {
		all = append(all, planned{attr: attr, at: perfevent.Where{Thread: tid, CPU: perfevent.AnyCPU}})
	}
	return [][]planned{all}, nil
}

// planCgroups leaves the directories of the cgroups open.
func planCgroups(dirs []string) (rounds [][]planned, err error) {
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
		var round []planned
		for _, cgroup := range groups {
			for _, config := range []uint64{0, 1, 2, 3, 4, 5, 6, 7, 8, perfdata.SoftwareBPFOutput} {
				round = append(round, planned{attr: software(config, 0), at: perfevent.Where{CPU: cpu, Cgroup: cgroup, UseCgroup: true}})
			}
		}
		rounds = append(rounds, round)
	}
	return rounds, nil
}
