package shared

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/bperf/bperf/internal/kernel"
	"github.com/bperf/bperf/internal/procfs"
)

// Cost is the CPU time of the shared BPF programs in a window of time.
type Cost struct {
	Window   time.Duration `json:"window_ns"`        // how long it was measured
	CPUs     int           `json:"cpus"`             // online CPUs
	Switches uint64        `json:"context_switches"` // of the machine, from /proc/stat
	Programs []ProgramCost `json:"programs"`         // those that count
}

// ProgramCost is the cost of a BPF program. RunTime includes part of the measurement itself: the kernel reads the clock twice per run.
type ProgramCost struct {
	Name    string        `json:"name"`
	ID      uint32        `json:"id"`             // ID of the BPF program
	Hook    string        `json:"hook,omitempty"` // its tracepoint, or the link of the leader that it follows; empty if sessions run it
	Runs    uint64        `json:"runs"`           // in the window
	RunTime time.Duration `json:"run_time_ns"`    // what these runs took
	Missed  uint64        `json:"missed"`         // runs since it was loaded that the kernel skipped, because it was already running there
}

// PerSwitch returns the mean run time per context switch, in ns; 0 if no program runs at switches.
func (c *Cost) PerSwitch() float64 {
	if c.Switches == 0 {
		return 0
	}
	for _, p := range c.Programs {
		if p.Name == countersProgOnSwitch {
			return float64(p.RunTime) / float64(c.Switches)
		}
	}
	return 0
}

// Share returns the run time of all programs as a share (0 to 1) of the time of all CPUs.
func (c *Cost) Share() float64 {
	var sum time.Duration
	for _, p := range c.Programs {
		sum += p.RunTime
	}
	return float64(sum) / float64(c.Window) / float64(c.CPUs)
}

// programs has the BPF programs that sessions share, open to observe them.
type programs []program

type program struct {
	*ebpf.Program
	name string
	hook string
	id   uint32
}

// openPrograms opens the hooks, if their links are open, and the programs that sessions run themselves. It does not keep the links open,
// so that the hooks are detached when the sessions end.
func openPrograms(o *objects) (programs, error) {
	var all programs
	for i, l := range append(slices.Clone(o.links), o.hotplug) {
		name, hook := countersProgOnHotplug, hotplugTracepoint
		if l != o.hotplug {
			name, hook = hookNames[i], tracepoints[i]
		}
		info, err := l.Info()
		if err != nil {
			return nil, errors.Join(fmt.Errorf("look at the link of the BPF program %s: %w", name, err), all.close())
		}
		if all, err = all.open(uint32(info.Program), name, hook); err != nil {
			return nil, err
		}
	}
	s, err := readSlots(o)
	if err != nil {
		return nil, errors.Join(err, all.close())
	}
	for i := range s.table {
		if all, err = all.openFollower(&s.table[i]); err != nil {
			return nil, err
		}
	}
	for i, name := range programNames {
		if all, err = all.open(o.Programs[i], name, ""); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// openFollower adds the follower of a slot's upstream leader, if there is one.
func (all programs) openFollower(s *countersSlot) (programs, error) {
	if s.Follower == 0 {
		return all, nil
	}
	l, err := link.NewFromID(link.ID(s.Follower))
	if errors.Is(err, fs.ErrNotExist) { // its sessions have ended
		return all, nil
	}
	var info *link.Info
	if err == nil {
		info, err = l.Info()
		err = errors.Join(err, l.Close())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("look at the link of the BPF program %s: %w", countersProgOnLeader, err), all.close())
	}
	return all.open(uint32(info.Program), countersProgOnLeader, fmt.Sprint("link ", s.Leader))
}

// open adds a program; on failure it closes all programs.
func (all programs) open(id uint32, name, hook string) (programs, error) {
	p, err := ebpf.NewProgramFromID(ebpf.ProgramID(id))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the BPF program %s: %w%s", name, err, permission(err)), all.close())
	}
	return append(all, program{p, name, hook, id}), nil
}

// missed returns the number of runs of all programs that the kernel has skipped since they were loaded.
func (all programs) missed() (runs uint64, err error) {
	for _, p := range all {
		s, err := p.Stats()
		if err != nil {
			return 0, fmt.Errorf("read the statistics of the BPF program %s: %w", p.name, err)
		}
		runs += s.RecursionMisses
	}
	return runs, nil
}

func (all programs) close() error {
	var errs []error
	for _, p := range all {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}

// Observation is a period during which the kernel measures the shared BPF programs.
type Observation struct {
	programs programs
	stats    io.Closer
	start    time.Time
	before   *Cost
}

// Observe begins to measure the cost of sharing, for all sessions together. The caller must call End.
func (c *Counter) Observe() (*Observation, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all, err := openPrograms(c.o)
	if err != nil {
		return nil, err
	}
	return all.observe()
}

// observe begins an observation of the programs, which closes them at its end.
func (all programs) observe() (*Observation, error) {
	on, err := kernel.CountRuns()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("enable the statistics of program runs: %w%s", err, permission(err)), all.close())
	}
	o := &Observation{programs: all, stats: on, start: time.Now()}
	if o.before, err = all.now(); err != nil {
		return nil, errors.Join(err, o.close())
	}
	return o, nil
}

func (o *Observation) close() error { return errors.Join(o.stats.Close(), o.programs.close()) }

// End ends the observation and returns the cost of the programs.
func (o *Observation) End() (*Cost, error) {
	after, err := o.programs.now()
	if err = errors.Join(err, o.close()); err != nil {
		return nil, err
	}
	online, err := procfs.OnlineCPUs()
	if err != nil {
		return nil, err
	}
	after.Window, after.CPUs = time.Since(o.start), len(online)
	after.Switches -= o.before.Switches
	for i := range after.Programs {
		after.Programs[i].Runs -= o.before.Programs[i].Runs
		after.Programs[i].RunTime -= o.before.Programs[i].RunTime
	}
	return after, nil
}

// now returns the cost of the programs since they were loaded, and the context switches since the machine was booted.
func (all programs) now() (*Cost, error) {
	stat, err := procfs.ReadStat(os.DirFS("/proc"))
	if err != nil {
		return nil, err
	}
	c := &Cost{Programs: []ProgramCost{}, Switches: stat.Switches}
	for _, p := range all {
		s, err := p.Stats()
		if err != nil {
			return nil, fmt.Errorf("read the statistics of the BPF program %s: %w", p.name, err)
		}
		c.Programs = append(c.Programs, ProgramCost{
			Name: p.name, ID: p.id, Hook: p.hook, Runs: s.RunCount, RunTime: s.Runtime, Missed: s.RecursionMisses})
	}
	return c, nil
}
