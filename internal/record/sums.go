package record

import (
	"fmt"
	"math/bits"
	"slices"
	"time"

	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/offcpu"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/perfdata"
)

// Sums are kept by BPF programs in place of samples: they run on the overflow of an event, and nothing is written to its ring.
type Sums struct {
	Stack   bool                                         // they have stacks
	Attach  func(event int, fd *perfevent.Event) error   // to an event, given by its place among Config.Events
	Poll    time.Duration                                // so often is asked whether they are due
	Due     func() bool                                  // they are to be read now
	Read    func(end bool, write func(*Sum) error) error // those since the last time
	Counted func(event int, own OwnCount)                // what an event itself has counted, at the end
	Task    func(perfdata.Value)                         // is told at once of MMAP2, FORK, EXIT and COMM; or nil
	Settled func() error                                 // is called when Task was told of all for now; or nil
	Follow  func(pids []int) error                       // keeps samples of these processes and what they start alone, with Config.SamplesCPUs
	Others  []string                                     // the names of events that have sums, and are not sampled

	// OffCPU attaches programs that add up how long threads are blocked; nil for none. With Config.OffCPU that has an event of its own.
	OffCPU func(*offcpu.Selection) (*offcpu.Switches, error)
}

// Sum is some samples that are alike, which are recorded as one.
type Sum struct {
	Event        int    // its place among Config.Events with Sums.Others behind them, or OffCPUEvent
	Time         uint64 // of the first one: CLOCK_MONOTONIC, ns
	PID, TID     int32  // -1 where these are not told apart
	CPU          int32  // the same
	Cgroup       uint64
	IP           uint64
	Kernel, User []uint64 // the stack, from the innermost frame on
	Value        uint64   // the sum of the periods
	Raw          []byte   // what else there is to tell
}

// OffCPUEvent is the event for the time that threads are blocked.
const OffCPUEvent = -1

// Sums are read when more than so many bytes of other records wait for them.
const (
	tasksSoon   = 200 * time.Millisecond
	tasksPoll   = 10 * time.Millisecond // where tasks have just mapped something, and may not have come to their end
	mostPending = 8 << 20
)

// summed reports whether BPF programs count the samples of an event. Those of tracepoints go through rings: programs for tracepoints are of another
// type, and the kernel would run them for all tasks.
func (p *plan) summed(o *opened) bool {
	return p.cfg.Sums != nil && !o.kind.dummy() && o.event.Tracepoint == ""
}

// prepareSums lets an event be such that programs can run on its overflow.
func (p *plan) prepareSums(o *opened) {
	if !p.summed(o) {
		return
	}
	// Of precise events programs get the callchain that the kernel takes with the CPU's record. Others have none where there are no samples.
	o.attr.SampleType &^= perfdata.SampleCallchain
	if p.samplesCPUs() && isClock(&o.attr) { // on idle CPUs the kernel would stop it
		o.attr.Flags |= perfdata.AttrExcludeIdle
	}
	if p.cfg.Sums.Stack && o.attr.Flags&(perfdata.AttrPreciseIP1|perfdata.AttrPreciseIP2) != 0 {
		o.attr.SampleType |= perfdata.SampleCallchain
	}
}

// describeSums is the form of samples that sums are written in.
func describeSums(sums *Sums, a *perfdata.Attr) {
	a.SampleType |= perfdata.SamplePeriod | perfdata.SampleRaw | perfdata.SampleCgroup
	a.SampleType &^= perfdata.SampleCallchain
	if sums.Stack {
		a.SampleType |= perfdata.SampleCallchain
	}
}

// settled says that Sums.Task was told of all for now.
func (c *collector) settled() error {
	if c.cfg.Sums == nil || c.cfg.Sums.Settled == nil {
		return nil
	}
	if c.tally.tasks != c.sums.tasks {
		c.sums.tasks, c.sums.pollUntil = c.tally.tasks, time.Now().Add(tasksSoon)
	}
	return c.cfg.Sums.Settled()
}

// introducePrograms tells of the BPF programs that are loaded. Where sums are followed as they come, their names are told before their code is.
func (c *collector) introducePrograms() error {
	if c.cfg.Sums == nil {
		return c.programs.introduce(c.emit, c.cfg.Verbose)
	}
	var code []perfdata.Value
	keep := func(_ perfdata.Misc, v perfdata.Value) error {
		code = append(code, v)
		return nil
	}
	if err := c.programs.introduce(keep, c.cfg.Verbose); err != nil {
		return err
	}
	if err := c.programs.tellNames(c.out.writer.SetFeature); err != nil {
		return err
	}
	for _, v := range code {
		if err := c.emit(perfdata.MiscKernel, v); err != nil {
			return err
		}
	}
	return nil
}

// sumState is how far sums were read.
type sumState struct {
	writtenAt int64           // bytes of the output when sums were last read
	tasks     uint64          // tally.tasks when Sums.Settled was last called
	pollUntil time.Time       // more records of tasks are expected until then
	sample    perfdata.Sample // that was written last; reused
}

// sumsDue reports whether sums are to be read.
func (c *collector) sumsDue() bool {
	return c.cfg.Sums != nil && (c.cfg.Sums.Due() || c.out.size()-c.sums.writtenAt > mostPending)
}

// writeSums writes the sums, and ends a round, so that readers put into order what came so far.
func (c *collector) writeSums(end bool) error {
	if c.cfg.Sums == nil {
		return nil
	}
	if err := c.programs.tellNames(c.out.writer.SetFeature); err != nil {
		return err
	}
	if err := c.cfg.Sums.Read(end, c.writeSum); err != nil {
		return err
	}
	c.sums.writtenAt = c.out.size()
	return c.out.write(0, &perfdata.FinishedRound{})
}

// reportCounted reports what an event has counted itself.
func (c *collector) reportCounted(o *opened) {
	if !c.summed(o) || o.kind.onlySums() || c.samplesCPUs() { // which count what others do, too
		return
	}
	if own := c.ownCount(o); own.Places > 0 {
		c.cfg.Sums.Counted(slices.Index(c.events, o), own)
	}
}

// OwnCount is what an event has counted itself.
type OwnCount struct {
	Count  uint64
	Places uint64 // CPUs and threads in which it was open
	Period uint64 // events between two samples; 0 if it varies
}

// ownCount reads what an event has counted itself. It has no places where that cannot be compared with its samples: a clock runs on while what is
// excluded runs.
func (s *sources) ownCount(o *opened) (own OwnCount) {
	if o.attr.ReadFormat&perfdata.ReadGroup != 0 ||
		isClock(&o.attr) && o.attr.Flags&(perfdata.AttrExcludeUser|perfdata.AttrExcludeKernel|perfdata.AttrExcludeIdle) != 0 {
		return own
	}
	switch {
	case !o.attr.Has(perfdata.AttrFreq):
		own.Period = o.attr.SamplePeriod
	case isClock(&o.attr): // the kernel makes a period of the frequency, which stays (perf_swevent_init_hrtimer in kernel/events/core.c)
		own.Period = uint64(time.Second) / o.attr.SamplePeriod
	}
	words := make([]uint64, 1+bits.OnesCount64(uint64(o.attr.ReadFormat)))
	for _, fd := range o.fds {
		if err := fd.ReadWords(words); err == nil {
			own.Count += words[0]
			own.Places++
		}
	}
	return own
}

// Missed returns how many samples are missing, when the periods of those that are there add up to value. It is exact where each event is a sample.
// Otherwise all but one event of a period may still be without a sample in each place, and are not counted.
func (own OwnCount) Missed(samples, value uint64) (missed uint64, exact bool) {
	period := float64(own.Period)
	if own.Period == 0 && samples > 0 {
		period = float64(value) / float64(samples)
	}
	if own.Count <= value || period == 0 {
		return 0, own.Period == 1
	}
	return uint64(max(0, float64(own.Count-value)-float64(own.Places)*(period-1)) / period), own.Period == 1
}

func isClock(a *perfdata.Attr) bool {
	return a.Type == perfdata.TypeSoftware && (a.Config == perfdata.SoftwareCPUClock || a.Config == perfdata.SoftwareTaskClock)
}

func (c *collector) writeSum(sum *Sum) error {
	o := c.sumEvent(sum.Event)
	if len(o.ids) == 0 {
		return fmt.Errorf("there is a sum of %s, which is not open", o.event.Name)
	}
	v := &c.sums.sample
	*v = perfdata.Sample{IP: sum.IP, Period: sum.Value, Raw: sum.Raw, Cgroup: sum.Cgroup, Callchain: appendStack(v.Callchain[:0], sum.Kernel, sum.User)}
	v.ID, v.PID, v.TID, v.CPU, v.Time = o.ids[0], sum.PID, sum.TID, uint32(sum.CPU), sum.Time
	misc := perfdata.MiscUser
	if int64(sum.IP) < 0 { // the kernel has the upper half of the addresses
		misc = perfdata.MiscKernel
	}
	return c.out.write(misc, v)
}

// sumEvent is the event of a sum.
func (p *plan) sumEvent(event int) *opened {
	sampled := len(p.cfg.Events.Events())
	switch {
	case event == OffCPUEvent:
		return p.offCPUOpened()
	case event < sampled:
		return p.events[event]
	}
	return p.others[event-sampled]
}

// otherEvent is an event that has nothing but sums.
func (p *plan) otherEvent(name string) *opened {
	o := &opened{kind: otherSums, event: &event.Event{Name: name, PMU: "software", Scale: 1}}
	o.leader = o
	a := &o.attr
	a.Type, a.Config = perfdata.TypeSoftware, perfdata.SoftwareDummy
	a.SamplePeriod = 1
	a.SampleType = perfdata.SampleIP | perfdata.SampleTID | perfdata.SampleTime | perfdata.SampleCPU
	a.ReadFormat = perfdata.ReadID | perfdata.ReadLost
	a.Flags = perfdata.AttrSampleIDAll | perfdata.AttrDisabled
	p.common(a)
	return o
}

// openOthers opens these events on one CPU each, for their IDs.
func (s *sources) openOthers() error {
	if len(s.others) == 0 {
		return nil
	}
	online, err := procfs.OnlineCPUs()
	if err != nil {
		return err
	}
	for _, o := range s.others {
		if err := s.openEvent(o, []place{{online[0], perfevent.AnyThread}}); err != nil {
			return err
		}
	}
	return nil
}

// appendStack appends a stack to a callchain, each part behind its mark.
func appendStack(chain, kernel, user []uint64) []uint64 {
	if len(kernel) > 0 {
		chain = append(append(chain, perfdata.ContextKernel), kernel...)
	}
	if len(user) > 0 {
		chain = append(append(chain, perfdata.ContextUser), user...)
	}
	return chain
}
