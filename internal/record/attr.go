package record

import (
	"runtime"
	"slices"

	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/perfdata"
)

// opened is one event of the recording: what its samples are like, and where it is open.
type opened struct {
	event  *event.Event
	cgroup string // its name; empty for none
	attr   perfdata.Attr
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
			o.attr.SamplePeriod, o.attr.SampleType = 0, o.leader.attr.SampleType
			o.attr.Flags &^= perfdata.AttrFreq
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
	last.attr.SampleType = s.events[0].attr.SampleType & (perfdata.SampleIP | perfdata.SampleTID | perfdata.SampleTime | perfdata.SampleCPU)
}

// attr is what one event of the user's is opened with.
func (s *session) attr(e *event.Event, leads bool, members int) perfdata.Attr {
	c := s.cfg.of(e)
	a := e.Attr
	a.SampleType |= perfdata.SampleIP | perfdata.SampleTID
	a.ReadFormat = perfdata.ReadID | perfdata.ReadLost
	a.Flags |= perfdata.AttrSampleIDAll
	if c.Overwrite {
		a.Flags |= perfdata.AttrWriteBackward
	}
	if c.Inherit && !c.PerThread {
		a.Flags |= perfdata.AttrInherit
	}
	if !e.Guests && a.Flags&(perfdata.AttrExcludeGuest|perfdata.AttrExcludeHost) == 0 {
		a.Flags |= perfdata.AttrExcludeGuest
	}
	if a.Type == perfdata.TypeTracepoint {
		a.SampleType |= perfdata.SampleRaw | perfdata.SampleTime | perfdata.SampleCPU
		if a.SamplePeriod == 0 {
			a.SamplePeriod = 1
		}
	}
	if a.SamplePeriod == 0 || c.Overrides {
		a.SamplePeriod, a.Flags = c.Period, a.Flags&^perfdata.AttrFreq
		if c.Frequency > 0 {
			a.SamplePeriod, a.Flags = c.Frequency, a.Flags|perfdata.AttrFreq
		}
	}
	// With the period in its samples, the kernel takes each event of a tracepoint as a sample, whatever the period is to be (perf_swevent_event
	// in kernel/events/core.c).
	if a.Has(perfdata.AttrFreq) || a.Type == perfdata.TypeTracepoint && a.SamplePeriod == 1 {
		a.SampleType |= perfdata.SamplePeriod
	}
	if c.PeriodSet != nil {
		a.SampleType &^= perfdata.SamplePeriod
		if *c.PeriodSet {
			a.SampleType |= perfdata.SamplePeriod
		}
	}
	if c.NoSamples {
		a.SamplePeriod = 0
	}
	if e.ReadGroup {
		a.SampleType |= perfdata.SampleRead
		if members > 1 {
			a.ReadFormat |= perfdata.ReadGroup
			a.Flags &^= perfdata.AttrInherit
		}
	}
	c.sampleBits(&a)
	c.callchain(&a)
	a.SampleMaxStack = e.Sampling.MaxStack
	if time := e.Sampling.Time; time != nil {
		a.SampleType &^= perfdata.SampleTime
		if *time {
			a.SampleType |= perfdata.SampleTime
		}
	}
	if leads {
		a.Flags |= perfdata.AttrDisabled
		if c.CommandIsTarget() && c.Delay == 0 && !c.StartDisabled && !s.samplesCPUs() {
			a.Flags |= perfdata.AttrEnableOnExec
		}
	}
	if e.MostPrecise {
		a.Flags |= perfdata.AttrPreciseIP1 | perfdata.AttrPreciseIP2
	}
	if c.AllUser {
		a.Flags |= perfdata.AttrExcludeKernel | perfdata.AttrExcludeHV
	}
	if c.AllKernel {
		a.Flags |= perfdata.AttrExcludeUser
	}
	if c.NoIdle {
		a.Flags |= perfdata.AttrExcludeIdle
	}
	s.common(&a)
	return a
}

// sampleBits adds what the options ask for.
func (c *Config) sampleBits(a *perfdata.Attr) {
	set := func(when bool, bits perfdata.SampleType) {
		if when {
			a.SampleType |= bits
		}
	}
	set(c.perCPU() || c.SampleCPU, perfdata.SampleCPU)
	set(!c.PerThread || c.Time || c.perCPU() || c.OffCPU != nil, perfdata.SampleTime)
	set(c.addresses(), perfdata.SampleAddr|perfdata.SampleDataSrc)
	set(c.PhysAddrs, perfdata.SamplePhysAddr)
	set(c.Weight, perfdata.SampleWeightStruct)
	set(c.Raw, perfdata.SampleRaw|perfdata.SampleTime|perfdata.SampleCPU)
	set(c.Cgroups, perfdata.SampleCgroup)
	set(c.Branches != 0, perfdata.SampleBranchStack)
	a.BranchSampleType = c.Branches
	if c.TaskCounts {
		a.Flags |= perfdata.AttrInheritStat
		a.ReadFormat |= perfevent.ReadFormatTimes
	}
}

// callchain adds callchains.
func (c *Config) callchain(a *perfdata.Attr) {
	if c.Callchain == CallchainNone {
		return
	}
	a.SampleType |= perfdata.SampleCallchain
	switch c.Callchain {
	case CallchainDWARF:
		a.SampleType |= perfdata.SampleRegsUser | perfdata.SampleStackUser
		a.SampleRegsUser |= unwindRegisters
		a.SampleStackUser = c.StackSize
		a.Flags |= perfdata.AttrExcludeCallchainUser
	case CallchainLBR:
		a.SampleType |= perfdata.SampleBranchStack
		a.BranchSampleType = perfdata.BranchUser | perfdata.BranchCallStack | perfdata.BranchNoCycles |
			perfdata.BranchNoFlags | perfdata.BranchHWIndex
		a.Flags |= perfdata.AttrExcludeCallchainUser
	}
}

// common is what all events have, the dummy too.
func (s *session) common(a *perfdata.Attr) {
	if s.cfg.ClockID != nil {
		a.Flags |= perfdata.AttrUseClockID
		a.ClockID = *s.cfg.ClockID
	}
}

// dummy counts nothing, and runs from the start: while what there is is told of, nothing that is new is missed.
func (s *session) dummy() *opened {
	o := &opened{dummy: true, event: &event.Event{Name: "dummy:HG", PMU: "software", Scale: 1}}
	o.leader = o
	a := &o.attr
	a.Type, a.Config = perfdata.TypeSoftware, perfdata.SoftwareDummy
	a.SamplePeriod = 1
	a.SampleType = perfdata.SampleIP | perfdata.SampleTID | perfdata.SampleTime
	a.ReadFormat = perfdata.ReadID | perfdata.ReadLost
	a.Flags = perfdata.AttrSampleIDAll
	if s.cfg.Inherit && !s.cfg.PerThread {
		a.Flags |= perfdata.AttrInherit
	}
	if s.cfg.perCPU() || s.cfg.SampleCPU {
		a.SampleType |= perfdata.SampleCPU
	}
	if s.cfg.CommandIsTarget() {
		a.Flags |= perfdata.AttrDisabled | perfdata.AttrEnableOnExec
	}
	s.common(a)
	return o
}

// tracking are the flags that ask for records other than samples.
const tracking = perfdata.AttrMmap | perfdata.AttrMmap2 | perfdata.AttrMmapData | perfdata.AttrComm | perfdata.AttrCommExec | perfdata.AttrTask |
	perfdata.AttrKSymbol | perfdata.AttrBPFEvent | perfdata.AttrNamespaces | perfdata.AttrCgroup | perfdata.AttrContextSwitch

// told are the events that the file tells of.
func (s *session) told() []*opened {
	return slices.DeleteFunc(slices.Clone(s.events), func(o *opened) bool { return o.silent })
}

// track asks for the records of tasks, memory and BPF programs, which one event has to.
func (s *session) track(a *perfdata.Attr) {
	c := s.cfg
	a.Flags |= perfdata.AttrMmap | perfdata.AttrMmap2 | perfdata.AttrComm | perfdata.AttrCommExec | perfdata.AttrTask | perfdata.AttrKSymbol
	set := func(when bool, f perfdata.AttrFlags) {
		if when {
			a.Flags |= f
		}
	}
	set(c.data(), perfdata.AttrMmapData)
	set(!c.NoBPF, perfdata.AttrBPFEvent)
	set(c.Namespaces, perfdata.AttrNamespaces)
	set(c.Cgroups, perfdata.AttrCgroup)
	set(c.Switches, perfdata.AttrContextSwitch)
}

// identify lets samples say of which event they are, where there are several: at the place that is the same in all samples, if they
// are not alike otherwise.
func (s *session) identify() {
	if len(s.events) == 1 || s.events[1].silent {
		return
	}
	bit := perfdata.SampleEventID
	for _, o := range s.events {
		if o.attr.SampleType != s.events[0].attr.SampleType || o.offCPU || s.sums(o) {
			bit = perfdata.SampleIdentifier
		}
	}
	for _, o := range s.events {
		o.attr.SampleType |= bit
	}
}

// unwindRegisters are those that are needed to unwind the user's stack: all of enum perf_event_x86_regs but the segments and flags that
// have no part in it, and all of enum perf_event_arm_regs (arch/*/include/uapi/asm/perf_regs.h).
var unwindRegisters = map[string]uint64{"amd64": 0xff0fff, "arm64": 1<<33 - 1}[runtime.GOARCH]
