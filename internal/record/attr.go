package record

import (
	"runtime"
	"slices"

	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/procfs"
)

// opened is one event of the recording: what its samples are like, and where it is open.
type opened struct {
	event  *event.Event
	cgroup string // its name; empty for none
	attr   perfevent.Attr
	leader *opened       // of its group; itself for those that lead
	filter *sampleFilter // of its samples; nil without, and for tracepoints
	dummy  bool          // counts nothing: for the records of tasks, memory and BPF programs
	silent bool          // a dummy that the file does not tell of
	// A dummy for the records of BPF programs of the whole machine alone, which is not opened for the target.
	everywhere bool
	offCPU     bool   // counts nothing: BPF programs write its samples
	output     string // counts nothing: the user's programs write its samples through the map with this name; empty for others
	standIn    bool   // is never enabled: it stands for sums that are of no event
	fds        []*perfevent.Event
	ids        []uint64
	places     []place // of fds
	later      int     // of these, the last: on CPUs that came online while it was recorded
}

// plan decides what is opened, and with which attributes. They are those with which perf opens events, so that reports look the same.
func (s *session) plan() error {
	if s.cfg.ClockID == nil && len(s.cfg.Programs.RingBuffers()) > 0 {
		clock := int32(ringClock)
		s.cfg.ClockID = &clock
	}
	for _, g := range s.cfg.Events {
		var leader *opened
		for _, e := range g.Events {
			o := &opened{event: e, leader: leader}
			var err error
			if o.filter, err = newFilter(e); err != nil {
				return err
			}
			if s.cfg.EventCgroups != nil {
				o.cgroup = s.cfg.EventCgroups[len(s.events)]
			}
			if leader == nil {
				leader, o.leader = o, o
			}
			o.attr = s.attr(e, o.leader == o, len(g.Events))
			s.events = append(s.events, o)
		}
	}
	s.addFiltered()
	for _, o := range s.events { // who reads groups samples its leader alone
		if o.leader != o && o.event.ReadGroup {
			o.attr.Sample, o.attr.SampleType = 0, o.leader.attr.SampleType
			o.attr.Flags &^= perfevent.Freq
		}
	}
	if len(s.events) > 0 {
		s.tracker = s.events[0]
	}
	if s.tracker == nil || s.cfg.perCPU() || s.cfg.Sums != nil || s.cfg.Delay > 0 || s.cfg.StartDisabled || s.cfg.Overwrite || s.cfg.EventCgroups != nil {
		s.tracker = s.dummy()
		s.events = append(s.events, s.tracker)
	} else if !s.cfg.NoBPF && !s.userOnly() {
		o := s.dummy()
		o.everywhere = true
		s.events = append(s.events, o)
	}
	if s.cfg.OffCPU != nil {
		s.events = append(s.events, s.offCPUEvent())
	}
	if s.cfg.Sums != nil {
		for _, name := range s.cfg.Sums.Others {
			s.others = append(s.others, s.otherEvent(name))
		}
		s.events = append(s.events, s.others...)
	}
	for _, name := range slices.Concat(s.cfg.Programs.Outputs(), s.cfg.Programs.RingBuffers()) {
		s.events = append(s.events, s.outputEvent(name))
	}
	s.track(&s.tracker.attr)
	s.silence()
	s.identify()
	online, err := procfs.OnlineCPUs()
	if err != nil {
		return err
	}
	s.sizeRings(len(online), perfevent.LocksAnything())
	return nil
}

// silence leaves the dummy out of the file where there is one event besides: then samples need not say of which event they are, which is a
// twelfth of their size. Its records are like those that this event would have.
func (s *session) silence() {
	last := s.events[len(s.events)-1]
	if len(s.events) != 2 || !last.dummy {
		return
	}
	last.silent = true
	last.attr.SampleType = s.events[0].attr.SampleType & (perfevent.SampleIP | perfevent.SampleTID | perfevent.SampleTime | perfevent.SampleCPU)
}

// attr is what one event of the user's is opened with.
func (s *session) attr(e *event.Event, leads bool, members int) perfevent.Attr {
	c := s.cfg.of(e)
	a := e.Attr
	a.SampleType |= perfevent.SampleIP | perfevent.SampleTID
	a.ReadFormat = perfevent.ReadFormatID | perfevent.ReadFormatLost
	a.Flags |= perfevent.SampleIDAll
	if c.Overwrite {
		a.Flags |= perfevent.WriteBackward
	}
	if c.Inherit && !c.PerThread {
		a.Flags |= perfevent.Inherit
	}
	if !e.Guests && a.Flags&(perfevent.ExcludeGuest|perfevent.ExcludeHost) == 0 {
		a.Flags |= perfevent.ExcludeGuest
	}
	if a.Type == perfevent.TypeTracepoint {
		a.SampleType |= perfevent.SampleRaw | perfevent.SampleTime | perfevent.SampleCPU
		if a.Sample == 0 {
			a.Sample = 1
		}
	}
	if a.Sample == 0 || c.Overrides {
		a.Sample, a.Flags = c.Period, a.Flags&^perfevent.Freq
		if c.Frequency > 0 {
			a.Sample, a.Flags = c.Frequency, a.Flags|perfevent.Freq
		}
	}
	// With the period in its samples, the kernel takes each event of a tracepoint as a sample, whatever the period is to be (perf_swevent_event
	// in kernel/events/core.c).
	if a.Has(perfevent.Freq) || a.Type == perfevent.TypeTracepoint && a.Sample == 1 {
		a.SampleType |= perfevent.SamplePeriod
	}
	if c.PeriodSet != nil {
		a.SampleType &^= perfevent.SamplePeriod
		if *c.PeriodSet {
			a.SampleType |= perfevent.SamplePeriod
		}
	}
	if c.NoSamples {
		a.Sample = 0
	}
	if e.ReadGroup {
		a.SampleType |= perfevent.SampleRead
		if members > 1 {
			a.ReadFormat |= perfevent.ReadFormatGroup
			a.Flags &^= perfevent.Inherit
		}
	}
	c.sampleBits(&a)
	c.callchain(&a)
	a.SampleMaxStack = e.Sampling.MaxStack
	if time := e.Sampling.Time; time != nil {
		a.SampleType &^= perfevent.SampleTime
		if *time {
			a.SampleType |= perfevent.SampleTime
		}
	}
	if leads {
		a.Flags |= perfevent.Disabled
		if c.CommandIsTarget() && c.Delay == 0 && !c.StartDisabled && !s.samplesCPUs() {
			a.Flags |= perfevent.EnableOnExec
		}
	}
	if e.MostPrecise {
		a.Flags |= perfevent.PreciseIPBit1 | perfevent.PreciseIPBit2
	}
	if c.AllUser {
		a.Flags |= perfevent.ExcludeKernel | perfevent.ExcludeHV
	}
	if c.AllKernel {
		a.Flags |= perfevent.ExcludeUser
	}
	if c.NoIdle {
		a.Flags |= perfevent.ExcludeIdle
	}
	s.common(&a)
	return a
}

// sampleBits adds what the options ask for.
func (c *Config) sampleBits(a *perfevent.Attr) {
	set := func(when bool, bits uint64) {
		if when {
			a.SampleType |= bits
		}
	}
	set(c.perCPU() || c.SampleCPU, perfevent.SampleCPU)
	set(!c.PerThread || c.Time || c.perCPU() || c.OffCPU != nil, perfevent.SampleTime)
	set(c.addresses(), perfevent.SampleAddr|perfevent.SampleDataSrc)
	set(c.PhysAddrs, perfevent.SamplePhysAddr)
	set(c.Weight, perfevent.SampleWeightStruct)
	set(c.Raw, perfevent.SampleRaw|perfevent.SampleTime|perfevent.SampleCPU)
	set(c.Cgroups, perfevent.SampleCgroup)
	set(c.Branches != 0, perfevent.SampleBranchStack)
	a.BranchSampleType = c.Branches
	if c.TaskCounts {
		a.Flags |= perfevent.InheritStat
		a.ReadFormat |= perfevent.ReadFormatTimes
	}
}

// callchain adds callchains.
func (c *Config) callchain(a *perfevent.Attr) {
	if c.Callchain == CallchainNone {
		return
	}
	a.SampleType |= perfevent.SampleCallchain
	switch c.Callchain {
	case CallchainDWARF:
		a.SampleType |= perfevent.SampleRegsUser | perfevent.SampleStackUser
		a.SampleRegsUser |= unwindRegisters
		a.SampleStackUser = c.StackSize
		a.Flags |= perfevent.ExcludeCallchainUser
	case CallchainLBR:
		a.SampleType |= perfevent.SampleBranchStack
		a.BranchSampleType = perfevent.BranchUser | perfevent.BranchCallStack | perfevent.BranchNoCycles |
			perfevent.BranchNoFlags | perfevent.BranchHWIndex
		a.Flags |= perfevent.ExcludeCallchainUser
	}
}

// common is what all events have, the dummy too.
func (s *session) common(a *perfevent.Attr) {
	if s.cfg.ClockID != nil {
		a.Flags |= perfevent.UseClockID
		a.ClockID = *s.cfg.ClockID
	}
}

// dummy counts nothing, and runs from the start: while what there is is told of, nothing that is new is missed.
func (s *session) dummy() *opened {
	o := &opened{dummy: true, event: &event.Event{Name: "dummy:HG", PMU: "software", Scale: 1}}
	o.leader = o
	a := &o.attr
	a.Type, a.Config = perfevent.TypeSoftware, perfevent.SoftwareDummy
	a.Sample = 1
	a.SampleType = perfevent.SampleIP | perfevent.SampleTID | perfevent.SampleTime
	a.ReadFormat = perfevent.ReadFormatID | perfevent.ReadFormatLost
	a.Flags = perfevent.SampleIDAll
	if s.cfg.Inherit && !s.cfg.PerThread {
		a.Flags |= perfevent.Inherit
	}
	if s.cfg.perCPU() || s.cfg.SampleCPU {
		a.SampleType |= perfevent.SampleCPU
	}
	if s.cfg.CommandIsTarget() {
		a.Flags |= perfevent.Disabled | perfevent.EnableOnExec
	}
	s.common(a)
	return o
}

// tracking are the flags that ask for records other than samples.
const tracking = perfevent.Mmap | perfevent.Mmap2 | perfevent.MmapData | perfevent.Comm | perfevent.CommExec | perfevent.Task |
	perfevent.KSymbols | perfevent.BPFEvents | perfevent.Namespaces | perfevent.Cgroups | perfevent.ContextSwitch

// told are the events that the file tells of.
func (s *session) told() []*opened {
	return slices.DeleteFunc(slices.Clone(s.events), func(o *opened) bool { return o.silent })
}

// track asks for the records of tasks, memory and BPF programs, which one event has to.
func (s *session) track(a *perfevent.Attr) {
	c := s.cfg
	a.Flags |= perfevent.Mmap | perfevent.Mmap2 | perfevent.Comm | perfevent.CommExec | perfevent.Task | perfevent.KSymbols
	set := func(when bool, f perfevent.Flags) {
		if when {
			a.Flags |= f
		}
	}
	set(c.data(), perfevent.MmapData)
	set(!c.NoBPF, perfevent.BPFEvents)
	set(c.Namespaces, perfevent.Namespaces)
	set(c.Cgroups, perfevent.Cgroups)
	set(c.Switches, perfevent.ContextSwitch)
}

// identify lets samples say of which event they are, where there are several: at the place that is the same in all samples, if they
// are not alike otherwise.
func (s *session) identify() {
	if len(s.events) == 1 || s.events[1].silent {
		return
	}
	bit := uint64(perfevent.SampleID)
	for _, o := range s.events {
		if o.attr.SampleType != s.events[0].attr.SampleType || o.offCPU || s.sums(o) {
			bit = perfevent.SampleIdentifier
		}
	}
	for _, o := range s.events {
		o.attr.SampleType |= bit
	}
}

// unwindRegisters are those that are needed to unwind the user's stack: all of enum perf_event_x86_regs but the segments and flags that
// have no part in it, and all of enum perf_event_arm_regs (arch/*/include/uapi/asm/perf_regs.h).
var unwindRegisters = map[string]uint64{"amd64": 0xff0fff, "arm64": 1<<33 - 1}[runtime.GOARCH]
