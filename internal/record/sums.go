package record

import (
	"math/bits"
	"slices"
	"time"

	"github.com/bperf/bperf/internal/kernel"
	"github.com/bperf/bperf/internal/offcpu"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/perfdata"
)

// Sums replaces samples by sums in the kernel: BPF programs run on the overflow of an event, and nothing is written to its ring. The recording is
// a stream of the other records.
type Sums struct {
	Stack  bool                                       // sums have stacks
	Kernel bool                                       // sums may be of kernel code even if no event is
	Attach func(event int, fd *perfevent.Event) error // attaches a program to an event, given by its index among Config.Events
	Poll   func() time.Duration                       // returns the time until Due is called again

	// Patience is how often Due and Settled are called for a while after tasks have mapped something, and makes waiting take less CPU time.
	// 0 for a short time.
	Patience time.Duration

	Due     func() bool                   // reports whether sums are to be read now
	Read    func(end bool) error          // reads the sums since the last call
	Counted func(event int, own OwnCount) // gets an event's own count, at the end
	Task    func(perfdata.Value)          // gets MMAP2, FORK, EXIT and COMM records immediately; or nil
	Settled func() error                  // is called when Task has got all records so far; or nil
	Follow  func(pids []int) error        // keeps only samples of these processes and what they start, with Config.SamplesCPUs

	// OffCPU attaches programs that add up how long threads are blocked; nil for none.
	OffCPU func(*offcpu.Selection) (*offcpu.Switches, error)
}

const (
	tasksSoon   = 200 * time.Millisecond
	tasksPoll   = 10 * time.Millisecond // if tasks have just mapped something, so that more records may follow
	mostPending = 8 << 20               // bytes of other records after which sums are read
)

// summed reports whether BPF programs count the samples of an event. Samples of tracepoints go through rings: programs for tracepoints have
// another type, and the kernel would run them for all tasks.
func (p *plan) summed(o *opened) bool {
	return p.cfg.Sums != nil && o.kind == sampled && o.event.Tracepoint == ""
}

// prepareSums sets the attributes of an event on whose overflow BPF programs run.
func (p *plan) prepareSums(o *opened) {
	if !p.summed(o) {
		return
	}
	// For precise events, programs get the callchain that the kernel takes with the CPU's record. Other events have none, as they write no samples.
	o.attr.SampleType &^= perfdata.SampleCallchain
	if p.samplesCPUs() && isClock(&o.attr) { // the kernel stops the clock on idle CPUs
		o.attr.Flags |= perfdata.AttrExcludeIdle
	}
	if p.cfg.Sums.Stack && o.attr.Flags&(perfdata.AttrPreciseIP1|perfdata.AttrPreciseIP2) != 0 {
		o.attr.SampleType |= perfdata.SampleCallchain
	}
}

// settled calls Sums.Settled, or builds unwind tables.
func (c *collector) settled() error {
	if c.unwinder != nil {
		return c.unwinder.settled(c.tally.tasks)
	}
	if c.cfg.Sums == nil || c.cfg.Sums.Settled == nil {
		return nil
	}
	if c.tally.tasks != c.sums.tasks {
		c.sums.tasks, c.sums.pollUntil = c.tally.tasks, time.Now().Add(tasksSoon)
	}
	return c.cfg.Sums.Settled()
}

// introducePrograms writes the BPF programs that are loaded. With sums, their names come before their code.
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
	if err := c.programs.writeNames(c.out.writer.SetFeature); err != nil {
		return err
	}
	for _, v := range code {
		if err := c.emit(perfdata.MiscKernel, v); err != nil {
			return err
		}
	}
	return nil
}

// sumState is the progress of reading sums.
type sumState struct {
	writtenAt int64     // bytes of the output when sums were last read
	tasks     uint64    // tally.tasks when Sums.Settled was last called
	pollUntil time.Time // until then, poll at tasksPoll, or with Sums.Patience
}

// sumsDue reports whether sums are to be read.
func (c *collector) sumsDue() bool {
	return c.cfg.Sums != nil && (c.cfg.Sums.Due() || c.out.size()-c.sums.writtenAt > mostPending)
}

// writeSums reads the sums and ends a round.
func (c *collector) writeSums(end bool) error {
	if c.cfg.Sums == nil {
		return nil
	}
	if err := c.programs.writeNames(c.out.writer.SetFeature); err != nil {
		return err
	}
	if err := c.cfg.Sums.Read(end); err != nil {
		return err
	}
	now, _, err := kernel.ClockAndWall(*c.cfg.ClockID)
	if err != nil {
		return err
	}
	fence := &perfdata.LostSamples{} // a record with the current time: the reader of the stream delivers the sums before it
	fence.ID, fence.Time = c.events[0].ids[0], now
	if err := c.out.write(0, fence); err != nil {
		return err
	}
	c.sums.writtenAt = c.out.size()
	return c.out.write(0, &perfdata.FinishedRound{})
}

// reportCounted passes an event's own count to Sums.Counted.
func (c *collector) reportCounted(o *opened) {
	if !c.summed(o) || c.samplesCPUs() { // events of CPUs also count other processes
		return
	}
	if own := c.ownCount(o); own.Scopes > 0 {
		c.cfg.Sums.Counted(slices.Index(c.events, o), own)
	}
}

// OwnCount is the count of an event, independent of its samples.
type OwnCount struct {
	Count  uint64
	Scopes uint64 // number of scopes in which it was open
	Period uint64 // events between two samples; 0 if it varies
}

// ownCount reads the count of an event. Scopes is 0 if the count cannot be compared with the samples: a clock also counts while excluded code
// runs.
func (s *sources) ownCount(o *opened) (own OwnCount) {
	if o.attr.ReadFormat&perfdata.ReadGroup != 0 ||
		isClock(&o.attr) && o.attr.Flags&(perfdata.AttrExcludeUser|perfdata.AttrExcludeKernel|perfdata.AttrExcludeIdle) != 0 {
		return own
	}
	switch {
	case !o.attr.Has(perfdata.AttrFreq):
		own.Period = o.attr.SamplePeriod
	case isClock(&o.attr): // the kernel converts the frequency to a fixed period (perf_swevent_init_hrtimer in kernel/events/core.c)
		own.Period = uint64(time.Second) / o.attr.SamplePeriod
	}
	words := make([]uint64, 1+bits.OnesCount64(uint64(o.attr.ReadFormat)))
	for _, fd := range o.fds {
		if err := fd.ReadWords(words); err == nil {
			own.Count += words[0]
			own.Scopes++
		}
	}
	return own
}

// Missed returns the number of missing samples. value is the sum of the periods of the samples that exist. The result is exact with a period of 1.
// Otherwise, up to period-1 events per scope may not have reached a sample yet, and do not count as missing.
func (own OwnCount) Missed(samples, value uint64) (missed uint64, exact bool) {
	period := float64(own.Period)
	if own.Period == 0 && samples > 0 {
		period = float64(value) / float64(samples)
	}
	if own.Count <= value || period == 0 {
		return 0, own.Period == 1
	}
	return uint64(max(0, float64(own.Count-value)-float64(own.Scopes)*(period-1)) / period), own.Period == 1
}

func isClock(a *perfdata.Attr) bool {
	return a.Type == perfdata.TypeSoftware && (a.Config == perfdata.SoftwareCPUClock || a.Config == perfdata.SoftwareTaskClock)
}
