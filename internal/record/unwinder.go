package record

import (
	"fmt"
	"time"

	"github.com/cilium/ebpf"

	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/record/chains"
	"github.com/bperf/bperf/internal/record/snapshot"
	"github.com/bperf/bperf/internal/userstack"
	"github.com/bperf/bperf/perfdata"
)

// unwinder gives samples the user callchains that a BPF program unwinds.
type unwinder struct {
	*chains.Program
	merger    *chains.Merger
	need      userstack.Need
	command   string    // whose tables are built before it starts; empty without
	prepared  bool      // the tables for the start are built
	tasks     uint64    // tally.tasks when tables were last built
	pollUntil time.Time // until then, more mappings may follow
}

// mostTasks is the most bytes of a ring for records of tasks and memory alone.
const mostTasks = leastRing / 4

// sampledPoll is the time between two looks for processes whose stacks were walked without tables.
const sampledPoll = 50 * time.Millisecond

// unwound reports whether a BPF program unwinds the user callchains of an event. For tracepoints, the kernel would run it for all tasks.
func (p *plan) unwound(e *event.Event) bool {
	c := p.cfg.of(e)
	return c.Callchain == CallchainBPF && !c.NoUser && !c.NoSamples && c.Sums == nil && e.Attr.Type != perfdata.TypeTracepoint
}

// checkUnwound returns an error if the user callchains of events cannot be unwound in the kernel.
func (p *plan) checkUnwound() error {
	for _, o := range p.events {
		switch {
		case !o.unwound:
			if o.attr.Type == perfdata.TypeTracepoint && p.cfg.of(o.event).Callchain == CallchainBPF && !p.cfg.NoUser {
				p.cfg.Notify(o.event.Name + ": --call-graph bpf records user callchains of tracepoints by frame pointers: " +
					"the kernel would run the program for all tasks")
			}
		case p.cfg.PerThread:
			return fmt.Errorf("%s: --call-graph bpf does not work with --per-thread: BPF programs write to the ring buffers of CPUs", o.event.Name)
		}
	}
	return nil
}

// chainsEvent returns the event to which the program writes callchains.
func (p *plan) chainsEvent() *opened {
	o := &opened{kind: userChains, silent: true, event: &event.Event{Name: "user callchains", PMU: "software", Scale: 1}}
	o.leader = o
	first := &p.events[0].attr
	a := &o.attr
	a.Type, a.Config = perfdata.TypeSoftware, perfdata.SoftwareBPFOutput
	a.SamplePeriod = 1
	a.SampleType = chains.SampleType(first.SampleType)
	a.ReadFormat = perfdata.ReadID | perfdata.ReadLost
	// The instruction pointer of a sample in a virtual machine depends on AttrExcludeGuest (Linux 6.13).
	a.Flags = perfdata.AttrSampleIDAll | first.Flags&(perfdata.AttrExcludeGuest|perfdata.AttrWriteBackward)
	p.common(a)
	return o
}

// loadUnwinder loads the program, if an event needs it.
func (s *sources) loadUnwinder() (err error) {
	if !s.unwinds {
		return nil
	}
	s.unwinder = &unwinder{need: userstack.All}
	if s.cfg.perCPU() {
		s.unwinder.need = userstack.Sampled
	}
	if s.cfg.CommandIsTarget() {
		s.unwinder.command = s.cfg.Command[0]
	}
	if s.unwinder.Program, err = chains.Load(s.unwinder.need, s.cfg.Allowance); err != nil {
		return fmt.Errorf("--call-graph bpf: %w", err)
	}
	return nil
}

// after returns the map through which the filter of an event calls the program; nil without. u may be nil.
func (u *unwinder) after(o *opened) *ebpf.Map {
	if !o.unwound {
		return nil
	}
	return u.Calls()
}

// openChains opens the event that the program writes to on all CPUs.
func (s *sources) openChains() error {
	if s.unwinder == nil {
		return nil
	}
	for _, o := range s.events {
		if o.kind != userChains {
			continue
		}
		if err := s.openOutput(o, s.unwinder.Output); err != nil {
			return err
		}
	}
	return nil
}

// identify prepares the merger for open events.
func (u *unwinder) identify(events []*opened) {
	u.merger = chains.NewMerger(events[0].attr.SampleType, events[0].ids[0])
	for _, o := range events {
		if o.unwound {
			u.merger.Event(&o.attr, o.ids)
		}
		if o.kind == userChains {
			u.merger.Output(o.ids)
		}
	}
}

// settled builds unwind tables: all of them before sampling starts, later in slices of 100 ms, because the same thread also drains rings.
// tasks is the number of records of tasks so far.
func (u *unwinder) settled(tasks uint64) error {
	longest := 100 * time.Millisecond
	if !u.prepared {
		u.prepared, longest = true, 0
		if u.command != "" {
			if err := u.Prepare(u.command); err != nil {
				return err
			}
		}
	}
	if u.tasks != tasks {
		u.tasks, u.pollUntil = tasks, time.Now().Add(tasksSoon)
	}
	return u.Update(longest)
}

// patience returns the longest time until tables are to be built again.
func (u *unwinder) patience(now time.Time) time.Duration {
	switch {
	case u.need == userstack.Sampled:
		return sampledPoll
	case now.Before(u.pollUntil):
		return tasksPoll
	}
	return idle
}

// close unloads the program. u may be nil.
func (u *unwinder) close() {
	if u != nil {
		_ = u.Close() // it is read no more
	}
}

// learnTasks applies what exists already to the unwind tables, where no records of it are written before the samples.
func (c *collector) learnTasks() error {
	if c.unwinder == nil || c.unwinder.prepared || !(c.cfg.Tail || c.cfg.Existing.NoTasks || c.cfg.Existing.NoMaps) {
		return nil
	}
	s := snapshot.New("/proc", func(_ perfdata.Misc, v perfdata.Value) error {
		c.unwinder.Record(v)
		return nil
	})
	return c.introduceProcesses(s)
}

// reportUnwound adds what happened to user callchains to a result.
func (c *collector) reportUnwound(r *Result) {
	if c.unwinder == nil {
		return
	}
	r.Chains, r.LeftOut = c.unwinder.merger.Counts(), c.unwinder.Stats()
	for _, o := range c.events {
		if o.kind != userChains {
			continue
		}
		for _, fd := range o.fds { // the records of losses have these, too
			if lost, err := c.readLost(o, fd); err == nil {
				r.Lost -= min(lost, r.Lost)
			}
		}
	}
	r.Lost = max(r.Lost, c.tally.noRoom)
}

// writeNotRun reports the samples of an event that the kernel dropped because it did not run the program. Where two events are the same,
// the kernel counts the samples of both as those of one.
func (c *collector) writeNotRun(o *opened) error {
	if !o.unwound || o.filter != nil { // the filter counts its samples
		return nil
	}
	for _, other := range c.events {
		if other != o && other.kind == sampled && other.attr.Type == o.attr.Type && other.attr.Config == o.attr.Config {
			return nil
		}
	}
	own := c.ownCount(o)
	if own.Period == 0 { // it varies
		return nil
	}
	taken := c.unwinder.merger.Samples(o.ids[0])
	for _, fd := range o.fds {
		if lost, err := c.readLost(o, fd); err == nil {
			taken += lost
		}
	}
	missed, exact := own.Missed(taken, taken*own.Period)
	if missed == 0 {
		return nil
	}
	return c.noteMissed(o, missed, exact)
}
