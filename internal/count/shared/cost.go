package shared

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/cilium/ebpf"

	"github.com/bperf/bperf/internal/target"
)

// Cost is what sharing took of the machine's time in a window.
type Cost struct {
	Window   time.Duration `json:"window_ns"`
	CPUs     int           `json:"cpus"`             // online
	Switches uint64        `json:"context_switches"` // of the machine, as in /proc/stat
	Programs []ProgramCost `json:"programs"`
}

// ProgramCost is what a BPF program took. Its run time has a part of the measurement's own: the clock is read twice a run.
type ProgramCost struct {
	Name    string        `json:"name"`
	ID      uint32        `json:"id"`
	Hook    string        `json:"hook,omitempty"` // tracepoint that it is attached to; empty if sessions run it
	Runs    uint64        `json:"runs"`
	RunTime time.Duration `json:"run_time_ns"`
	Missed  uint64        `json:"missed"` // runs, since it was loaded, that did not take place: it ran there already
}

// PerSwitch is the run time that each context switch took on average, in ns; 0 if no program runs there.
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

// Share is the run time of all programs as a part of the time of all CPUs.
func (c *Cost) Share() float64 {
	var sum time.Duration
	for _, p := range c.Programs {
		sum += p.RunTime
	}
	return float64(sum) / float64(c.Window) / float64(c.CPUs)
}

// programs are the BPF programs that sessions share, held open to observe them.
type programs []program

type program struct {
	*ebpf.Program
	name string
	hook string
	id   uint32
}

// openPrograms opens the hooks, if they are attached, and what sessions run themselves. The links are left to the sessions,
// so that the hooks go with them.
func openPrograms(o *objects) (programs, error) {
	var all programs
	add := func(id uint32, name, hook string) error {
		p, err := ebpf.NewProgramFromID(ebpf.ProgramID(id))
		if err != nil {
			return errors.Join(fmt.Errorf("open the BPF program %s: %w%s", name, err, permission(err)), all.close())
		}
		all = append(all, program{p, name, hook, id})
		return nil
	}
	spec, err := loadCounters()
	if err != nil {
		return nil, err
	}
	if o.openLinks() {
		for i, l := range o.links {
			info, err := l.Info()
			if err != nil {
				return nil, errors.Join(fmt.Errorf("look at the link of the BPF program %s: %w", hookNames[i], err), all.close())
			}
			if err := add(uint32(info.Program), hookNames[i], spec.Programs[hookNames[i]].AttachTo); err != nil {
				return nil, err
			}
		}
	}
	for i, name := range programNames {
		if err := add(o.Programs[i], name, ""); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (all programs) close() error {
	var errs []error
	for _, p := range all {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}

// statsRunTime is BPF_STATS_RUN_TIME of include/uapi/linux/bpf.h. Such statistics are kept as long as a descriptor is open
// that asks for them (Linux 5.8).
const statsRunTime = 0

// observe lets the kernel measure the programs for a window of time.
func (all programs) observe(window time.Duration) (*Cost, error) {
	online, err := target.Spec{System: true}.Resolve()
	if err != nil {
		return nil, err
	}
	on, err := ebpf.EnableStats(statsRunTime)
	if err != nil {
		return nil, fmt.Errorf("enable the statistics of program runs: %w%s", err, permission(err))
	}
	defer on.Close()
	start := time.Now()
	before, err := all.now()
	if err != nil {
		return nil, err
	}
	time.Sleep(window)
	after, err := all.now()
	if err != nil {
		return nil, err
	}
	after.Window, after.CPUs = time.Since(start), len(online.CPUs)
	after.Switches -= before.Switches
	for i := range after.Programs {
		after.Programs[i].Runs -= before.Programs[i].Runs
		after.Programs[i].RunTime -= before.Programs[i].RunTime
	}
	return after, nil
}

// now is what the programs took since they were loaded, and the context switches since the machine was booted.
func (all programs) now() (*Cost, error) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return nil, err
	}
	c := &Cost{Programs: []ProgramCost{}}
	if c.Switches, err = parseSwitches(string(stat)); err != nil {
		return nil, err
	}
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

// parseSwitches finds the number of context switches in /proc/stat (Documentation/filesystems/proc.rst).
func parseSwitches(stat string) (uint64, error) {
	for line := range strings.Lines(stat) {
		if n, ok := strings.CutPrefix(line, "ctxt "); ok {
			return strconv.ParseUint(strings.TrimSpace(n), 10, 64)
		}
	}
	return 0, errors.New("/proc/stat has no context switches (ctxt)")
}
