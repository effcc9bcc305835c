package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/perfdata"
)

// followCPU calls join for a CPU that came online, and notifies the user whether it is recorded.
func (s *recorder) followCPU(change target.CPUChange, join func(cpu int) error) {
	t := s.sources.target
	switch {
	case s.cfg.PerThread: // events of threads are not bound to CPUs
	case change.Number == 0:
		s.cfg.Notify("The kernel's messages of CPUs that have come online were lost: such CPUs are not recorded. Start again to record them")
	case change.Online && (s.cfg.Target.CPUs == nil || slices.Contains(t.CPUs, change.CPU) || slices.Contains(t.Offline, change.CPU)):
		if err := join(change.CPU); err != nil {
			s.cfg.Notify(fmt.Sprintf("CPU %d has come online and is not recorded: %v. Start again to record it", change.CPU, err))
			return
		}
		s.cfg.Notify(fmt.Sprintf("CPU %d has come online and is recorded from now on", change.CPU))
	}
}

// join opens all events on a CPU that came online. Events that were open there ended when it went offline.
//
// The header of a file or pipe lists the IDs of events, and perf rejects samples with other IDs. So the records of the new events get IDs that the
// same events have in scopes that were open from the start.
func (c *collector) join(cpu int) error {
	switch {
	case c.cfg.Overwrite:
		return errors.New("only rings that are there from the start keep the newest records")
	case slices.ContainsFunc(c.events, func(o *opened) bool { return o.attr.SampleType&perfdata.SampleRead != 0 }):
		return errors.New("samples have counts, which would begin anew")
	case len(c.target.Threads) > 0 && !slices.ContainsFunc(c.tracker.scopes, func(at scope) bool { return at.cpu == cpu }):
		return errors.New("it was offline when recording the processes began")
	}
	c.work.Lock()
	defer c.work.Unlock()
	if err := c.programs.join(cpu); err != nil {
		return err
	}
	c.later = true
	rings := len(c.order)
	for _, o := range c.events {
		if len(c.target.Threads) > 0 && o.kind.onTarget() { // events of threads continue when a CPU is back
			continue
		}
		if err := c.joinEvent(o, scope{cpu, perfevent.AnyThread}); err != nil {
			return err
		}
	}
	for _, r := range c.order[rings:] {
		if err := c.waiter.Add(r.owner); err != nil {
			return err
		}
	}
	return nil
}

// joinEvent opens an event on a CPU. It reuses the ring of the CPU if there is one.
func (s *sources) joinEvent(o *opened, at scope) error {
	for i := range o.scopes { // it still runs if the CPU came online during the start of the recording
		if o.scopes[i] == at {
			if err := o.fds[i].Disable(); err != nil {
				return err
			}
		}
	}
	before := len(o.fds)
	err := s.openEvent(o, []scope{at})
	for i := before; i < len(o.fds) && err == nil; i++ {
		switch {
		case o.kind == programOutput:
			err = s.cfg.Programs.Connect(o.output, at.cpu, o.fds[i].FD())
		case o.kind == userChains:
			err = s.unwinder.Output(at.cpu, o.fds[i].FD())
		case o.kind == offCPUSamples:
			err = s.offCPU.recorder.Output(at.cpu, o.fds[i].FD())
		case s.enabled && o.switched():
			err = o.fds[i].Enable()
		}
	}
	return err
}

// knownID returns the ID of an event in a scope that was open from the start, if possible on the same CPU.
func (o *opened) knownID(cpu int) uint64 {
	i := slices.IndexFunc(o.scopes[:len(o.ids)], func(at scope) bool { return at.cpu == cpu })
	return o.ids[max(i, 0)]
}

// rename replaces, in records, the IDs of events that were opened later.
func (r *ring) rename(sampleType perfdata.SampleType, first, rest []byte) (_, _ []byte) {
	const ids = perfdata.SampleIdentifier | perfdata.SampleEventID
	if len(r.later) == 0 || sampleType&ids == 0 { // a single event has none
		return first, rest
	}
	inSample, fromEnd := idOffsets(sampleType)
	ne := binary.NativeEndian
	records := slices.Concat(first, rest)
	for b := records; len(b) >= headerSize; {
		size := int(ne.Uint16(b[6:]))
		if size < headerSize || size > len(b) {
			break // tally says what is wrong
		}
		at := size - fromEnd
		if perfdata.RecordType(ne.Uint32(b)) == perfdata.RecordSample {
			at = inSample
		}
		if at >= headerSize && at+8 <= size {
			if known, is := r.later[ne.Uint64(b[at:])]; is {
				ne.PutUint64(b[at:], known)
			}
		}
		b = b[size:]
	}
	return records, nil
}

// idOffsets returns where records have the ID of their event: the offset in samples, and the distance from the end of other records
// (include/uapi/linux/perf_event.h, struct sample_id and PERF_RECORD_SAMPLE).
func idOffsets(sampleType perfdata.SampleType) (inSample, fromEnd int) {
	inSample, fromEnd = headerSize, 8
	if sampleType&perfdata.SampleIdentifier == 0 {
		const before = perfdata.SampleIP | perfdata.SampleTID | perfdata.SampleTime | perfdata.SampleAddr
		inSample += 8 * bits.OnesCount64(uint64(sampleType&before))
		fromEnd += 8 * bits.OnesCount64(uint64(sampleType&(perfdata.SampleStreamID|perfdata.SampleCPU)))
	}
	return inSample, fromEnd
}
