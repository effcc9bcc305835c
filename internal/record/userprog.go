package record

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/bperf/bperf/internal/bpfprog/linear"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/kernel"
	"github.com/bperf/bperf/perfdata"
)

// outputEvent returns the event whose samples are the data that the user's programs write through a map. It has the map's name, or the one in
// Config.OutputNames. Through a map of type PERF_EVENT_ARRAY, programs write directly to the rings of the event (bpf_perf_event_output).
func (p *plan) outputEvent(channel string) *opened {
	o := &opened{kind: programOutput, output: channel, event: &event.Event{Name: cmp.Or(p.cfg.OutputNames[channel], channel), PMU: "software", Scale: 1}}
	o.leader = o
	a := &o.attr
	a.Type, a.Config = perfdata.TypeSoftware, perfdata.SoftwareBPFOutput
	a.SamplePeriod = 1
	a.SampleType = perfdata.SampleIP | perfdata.SampleTID | perfdata.SampleTime | perfdata.SampleCPU | perfdata.SampleRaw
	a.ReadFormat = perfdata.ReadID | perfdata.ReadLost
	a.Flags = perfdata.AttrSampleIDAll
	p.common(a)
	return o
}

// openOutputs opens these events on all CPUs for any target, because programs may write on any CPU.
func (s *sources) openOutputs() error {
	for _, o := range s.events {
		if o.kind != programOutput {
			continue
		}
		err := s.openOutput(o, func(cpu, fd int) error {
			if err := s.cfg.Programs.Connect(o.output, cpu, fd); err != nil {
				return fmt.Errorf("let programs write to the recording: %w", err)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// outputTypes returns the BTF of the objects whose programs write to user space, with IDs that the kernel does not assign. The maps of these objects
// name the types of the data.
func (p *plan) outputTypes() []linear.BTF {
	var all []linear.BTF
	for i, b := range p.cfg.Programs.OutputTypes() {
		all = append(all, linear.BTF{ID: math.MaxUint32 - uint32(i), Data: b})
	}
	return all
}

// openRings opens the user's maps of type RINGBUF.
func (s *sources) openRings() (err error) {
	s.fromRings, err = s.cfg.Programs.OpenRings()
	return err
}

// ringClock is the default clock of a recording with maps of type RINGBUF. Their data gets the time at which bperf reads it, and bperf cannot read
// perf's own clock.
const ringClock = perfdata.ClockMonotonic

// mostRaw is the number of bytes of raw data that fit into a record together with the other fields of a sample. The size of a record has 16 bits.
const mostRaw = 65000

// keepRings writes the data that programs have written to maps of type RINGBUF. It reports whether there was any.
func (c *collector) keepRings() (wrote bool, err error) {
	err = c.fromRings.Read(func(name string, b []byte) error {
		o := c.events[slices.IndexFunc(c.events, func(o *opened) bool { return o.kind == programOutput && o.output == name })]
		wrote = true
		if len(b) > mostRaw {
			c.tally.noRoom++
			lost := &perfdata.LostSamples{Samples: 1}
			lost.ID = o.ids[0]
			return c.out.write(0, lost)
		}
		now, _, err := kernel.ClockAndWall(*c.cfg.ClockID)
		if err != nil {
			return err
		}
		// As in the kernel's records, raw data and its 32-bit size are padded to a multiple of 8 bytes.
		v := &perfdata.Sample{Raw: append(slices.Clone(b), make([]byte, -(len(b)+4)&7)...)}
		v.ID, v.PID, v.TID, v.CPU, v.Time = o.ids[0], -1, -1, math.MaxUint32, now
		if err := c.out.write(perfdata.MiscKernel, v); err != nil {
			return err
		}
		c.tally.sample(now)
		return nil
	})
	return wrote, err
}
