package record

import (
	"slices"

	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/perfdata"
)

// kind is the purpose of an event in a recording.
type kind int

const (
	sampled       kind = iota // one of Config.Events
	sideBand                  // counts nothing: has the records of the target's tasks, memory and BPF programs
	bpfLoads                  // counts nothing: has the records of the BPF programs of the whole machine
	offCPUSamples             // counts nothing: BPF programs write the off-CPU times of threads to its rings
	programOutput             // counts nothing: the user's programs write its samples
	userChains                // counts nothing: a BPF program writes user callchains to the rings of the samples
)

// dummy reports whether the event has no samples.
func (k kind) dummy() bool { return k == sideBand || k == bpfLoads }

// onTarget reports whether the event is opened for the target; the others are opened on all CPUs.
func (k kind) onTarget() bool { return k == sampled || k == sideBand }

// opened is an event of the recording, with the scopes in which it is open.
type opened struct {
	kind    kind
	event   *event.Event
	cgroup  string // name of its cgroup; empty without
	attr    perfdata.Attr
	leader  *opened       // of its group; a leader's leader is itself
	filter  *sampleFilter // nil without, and for tracepoints
	output  string        // name of the map through which programs write; for programOutput
	silent  bool          // the file does not list it
	unwound bool          // a BPF program unwinds the user callchains of its samples
	fds     []*perfevent.Event
	ids     []uint64
	scopes  []scope // in which each of fds is open
	later   int     // the last later scopes are on CPUs that came online during the recording
}

// plan has the events to open and their attributes.
type plan struct {
	cfg      *Config
	events   []*opened
	tracker  *opened // of events: has the records of tasks and memory
	ringSize int     // bytes
	unwinds  bool    // some event is unwound
}

// newPlan plans the events of a recording. They get the same attributes as in perf, so that reports look the same.
func newPlan(cfg *Config) (*plan, error) {
	p := &plan{cfg: cfg}
	if p.cfg.ClockID == nil && len(p.cfg.Programs.RingBuffers()) > 0 {
		clock := int32(ringClock)
		p.cfg.ClockID = &clock
	}
	for _, g := range p.cfg.Events {
		var leader *opened
		for _, e := range g.Events {
			o := &opened{event: e, leader: leader}
			var err error
			if o.filter, err = newFilter(e); err != nil {
				return nil, err
			}
			if p.cfg.EventCgroups != nil {
				o.cgroup = p.cfg.EventCgroups[len(p.events)]
			}
			if leader == nil {
				leader, o.leader = o, o
			}
			o.attr = p.attr(e, o.leader == o, len(g.Events))
			o.unwound = p.unwound(e)
			p.unwinds = p.unwinds || o.unwound
			p.events = append(p.events, o)
		}
	}
	if err := p.checkUnwound(); err != nil {
		return nil, err
	}
	p.addFiltered()
	for _, o := range p.events { // in a group that is read as one, only the leader samples
		if o.leader != o && o.event.ReadGroup {
			o.attr.SamplePeriod, o.attr.SampleType = 0, o.leader.attr.SampleType
			o.attr.Flags &^= perfdata.AttrFreq
		}
	}
	if len(p.events) > 0 {
		p.tracker = p.events[0]
	}
	if p.tracker == nil || p.cfg.perCPU() || p.cfg.Sums != nil || p.cfg.Waits() || p.cfg.Overwrite || p.cfg.EventCgroups != nil || p.unwinds {
		p.tracker = p.dummy(sideBand)
		p.events = append(p.events, p.tracker)
	} else if !p.cfg.NoBPF && !p.userOnly() {
		p.events = append(p.events, p.dummy(bpfLoads))
	}
	if p.cfg.OffCPU != nil {
		p.events = append(p.events, p.offCPUEvent())
	}
	for _, name := range slices.Concat(p.cfg.Programs.Outputs(), p.cfg.Programs.RingBuffers()) {
		p.events = append(p.events, p.outputEvent(name))
	}
	if p.unwinds {
		p.events = append(p.events, p.chainsEvent())
	}
	p.track(&p.tracker.attr)
	p.silence()
	p.identify()
	online, err := procfs.OnlineCPUs()
	if err != nil {
		return nil, err
	}
	p.sizeRings(len(online), perfevent.LocksAnything())
	return p, nil
}

// silence leaves the dummy out of the file if there is only one other event. Then samples need no ID, which saves a twelfth of their size. The
// dummy gets attributes that make its records look like those of the other event.
func (p *plan) silence() {
	last := p.events[len(p.events)-1]
	if len(p.events) != 2 || !last.kind.dummy() {
		return
	}
	last.silent = true
	last.attr.SampleType = p.events[0].attr.SampleType & (perfdata.SampleIP | perfdata.SampleTID | perfdata.SampleTime | perfdata.SampleCPU)
}

// attr returns the attributes of an event that the user asked for.
func (p *plan) attr(e *event.Event, leads bool, members int) perfdata.Attr {
	c := p.cfg.of(e)
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
	// With PERF_SAMPLE_PERIOD, the kernel samples each event of a tracepoint and ignores the requested period (perf_swevent_event in
	// kernel/events/core.c).
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
	c.registers(&a)
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
		if c.CommandIsTarget() && !c.Waits() && !p.samplesCPUs() {
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
	p.common(&a)
	return a
}

// sampleBits adds the fields of samples that the options ask for.
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
	set(c.Transaction, perfdata.SampleTransaction)
	set(c.DataPages, perfdata.SampleDataPageSize|perfdata.SampleAddr)
	set(c.CodePages, perfdata.SampleCodePageSize)
	set(c.Raw, perfdata.SampleRaw|perfdata.SampleTime|perfdata.SampleCPU)
	set(c.Cgroups, perfdata.SampleCgroup)
	set(c.Branches != 0, perfdata.SampleBranchStack)
	a.BranchSampleType = c.Branches
	if c.TaskCounts {
		a.Flags |= perfdata.AttrInheritStat
		a.ReadFormat |= perfevent.ReadFormatTimes
	}
	if c.RunTimes && a.SampleType&perfdata.SampleRead != 0 {
		a.ReadFormat |= perfevent.ReadFormatTimes
	}
}

// callchain adds the fields and flags for callchains.
func (c *Config) callchain(a *perfdata.Attr) {
	if c.Callchain == CallchainNone {
		return
	}
	a.SampleType |= perfdata.SampleCallchain
	if c.NoUser {
		a.Flags |= perfdata.AttrExcludeCallchainUser
	}
	if c.NoKernel {
		a.Flags |= perfdata.AttrExcludeCallchainKernel
	}
	switch c.Callchain {
	case CallchainDWARF:
		a.Flags |= perfdata.AttrExcludeCallchainUser
		if c.NoUser {
			return // nobody unwinds the user's stack
		}
		a.SampleType |= perfdata.SampleRegsUser | perfdata.SampleStackUser
		a.SampleRegsUser |= AllRegisters
		a.SampleStackUser = c.StackSize
	case CallchainBPF:
		if a.Type != perfdata.TypeTracepoint && !c.NoUser {
			a.Flags |= perfdata.AttrExcludeCallchainUser
		}
	case CallchainLBR:
		a.SampleType |= perfdata.SampleBranchStack
		a.BranchSampleType = perfdata.BranchUser | perfdata.BranchCallStack | perfdata.BranchNoCycles |
			perfdata.BranchNoFlags | perfdata.BranchHWIndex
		a.Flags |= perfdata.AttrExcludeCallchainUser
	}
}

// common sets the attributes that all events share, including the dummy.
func (p *plan) common(a *perfdata.Attr) {
	if p.cfg.ClockID != nil {
		a.Flags |= perfdata.AttrUseClockID
		a.ClockID = *p.cfg.ClockID
	}
}

// dummy returns an event that counts nothing and runs from the start, so that no change is missed while the snapshot is written.
func (p *plan) dummy(k kind) *opened {
	o := &opened{kind: k, event: &event.Event{Name: "dummy:HG", PMU: "software", Scale: 1}}
	o.leader = o
	a := &o.attr
	a.Type, a.Config = perfdata.TypeSoftware, perfdata.SoftwareDummy
	a.SamplePeriod = 1
	a.SampleType = perfdata.SampleIP | perfdata.SampleTID | perfdata.SampleTime
	a.ReadFormat = perfdata.ReadID | perfdata.ReadLost
	a.Flags = perfdata.AttrSampleIDAll
	if p.cfg.Inherit && !p.cfg.PerThread {
		a.Flags |= perfdata.AttrInherit
	}
	if p.cfg.perCPU() || p.cfg.SampleCPU {
		a.SampleType |= perfdata.SampleCPU
	}
	if p.cfg.CommandIsTarget() {
		a.Flags |= perfdata.AttrDisabled | perfdata.AttrEnableOnExec
	}
	p.common(a)
	return o
}

// tracking has the flags that ask for records other than samples.
const tracking = perfdata.AttrMmap | perfdata.AttrMmap2 | perfdata.AttrMmapData | perfdata.AttrComm | perfdata.AttrCommExec | perfdata.AttrTask |
	perfdata.AttrKSymbol | perfdata.AttrBPFEvent | perfdata.AttrNamespaces | perfdata.AttrCgroup | perfdata.AttrContextSwitch | perfdata.AttrBuildID

// listed returns the events that the file lists.
func (p *plan) listed() []*opened {
	return slices.DeleteFunc(slices.Clone(p.events), func(o *opened) bool { return o.silent })
}

// track makes an event ask for the records of tasks, memory and BPF programs. One event of a recording does that.
func (p *plan) track(a *perfdata.Attr) {
	c := p.cfg
	a.Flags |= perfdata.AttrMmap | perfdata.AttrMmap2 | perfdata.AttrComm | perfdata.AttrCommExec | perfdata.AttrTask | perfdata.AttrKSymbol
	set := func(when bool, f perfdata.AttrFlags) {
		if when {
			a.Flags |= f
		}
	}
	set(c.data() || c.DataMaps, perfdata.AttrMmapData)
	set(!c.NoBPF, perfdata.AttrBPFEvent)
	set(c.Namespaces, perfdata.AttrNamespaces)
	set(c.Cgroups, perfdata.AttrCgroup)
	set(c.Switches, perfdata.AttrContextSwitch)
	set(c.MmapBuildID, perfdata.AttrBuildID)
}

// identify adds the ID of the event to samples if there are several events, or if the configuration asks for it. If their sample types differ,
// it uses PERF_SAMPLE_IDENTIFIER, which has the same offset in all samples.
func (p *plan) identify() {
	bit := perfdata.SampleEventID
	switch {
	case p.cfg.Identifier:
		bit = perfdata.SampleIdentifier
	case len(p.events) == 1 || p.events[1].silent:
		return
	}
	for _, o := range p.events {
		if o.attr.SampleType != p.events[0].attr.SampleType || o.kind == offCPUSamples || p.summed(o) {
			bit = perfdata.SampleIdentifier
		}
	}
	for _, o := range p.events {
		o.attr.SampleType |= bit
	}
}

// userOnly reports whether no event samples the kernel.
func (p *plan) userOnly() bool {
	if p.cfg.Sums != nil && p.cfg.Sums.Kernel {
		return false
	}
	return !slices.ContainsFunc(p.events, func(o *opened) bool {
		return !o.kind.dummy() && o.kind != programOutput && o.kind != userChains && !o.attr.Has(perfdata.AttrExcludeKernel) && !(o.kind == offCPUSamples && p.cfg.AllUser)
	})
}
