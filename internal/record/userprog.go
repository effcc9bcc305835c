package record

import (
	"fmt"

	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/target"
)

// outputEvent is the event to whose rings programs of the user's write through a map of type PERF_EVENT_ARRAY (bpf_perf_event_output). It has the
// map's name.
func (s *session) outputEvent(name string) *opened {
	o := &opened{output: true, event: &event.Event{Name: name, PMU: "software", Scale: 1}}
	o.leader = o
	a := &o.attr
	a.Type, a.Config = perfevent.TypeSoftware, perfevent.SoftwareBPFOutput
	a.Sample = 1
	a.SampleType = perfevent.SampleIP | perfevent.SampleTID | perfevent.SampleTime | perfevent.SampleCPU | perfevent.SampleRaw
	a.ReadFormat = perfevent.ReadFormatID | perfevent.ReadFormatLost
	a.Flags = perfevent.SampleIDAll
	s.common(a)
	return o
}

// openOutputs opens these events on all CPUs, whatever is recorded: programs may write on any of them.
func (s *session) openOutputs() error {
	for _, o := range s.events {
		if !o.output {
			continue
		}
		online, err := target.Spec{System: true}.Resolve()
		if err != nil {
			return err
		}
		var places []place
		for _, cpu := range online.CPUs {
			places = append(places, place{cpu, perfevent.AnyThread})
		}
		if err := s.openEvent(o, places); err != nil {
			return err
		}
		for i, fd := range o.fds {
			if err := s.cfg.Programs.Connect(o.event.Name, o.places[i].cpu, fd.FD()); err != nil {
				return fmt.Errorf("let programs write to the recording: %w", err)
			}
		}
	}
	return nil
}

// elsewhere reports whether an event is not opened for the target.
func (o *opened) elsewhere() bool { return o.offCPU || o.output || o.everywhere }
