package record

import (
	"fmt"

	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/perfdata"
)

// switchEvents are the open events of Switch.Events. They are not in the file.
type switchEvents struct {
	fds   []*perfevent.Event
	rings []*perfevent.Ring // one of each
}

// openSwitchEvents opens the events for the target; as in perf, for the whole system if that is the command.
func (s *sources) openSwitchEvents() error {
	if len(s.cfg.Switch.Events) == 0 {
		return nil
	}
	of := s.target
	if s.cfg.CommandIsTarget() {
		online, err := procfs.OnlineCPUs()
		if err != nil {
			return err
		}
		of = target.Target{CPUs: online}
	}
	scopes, err := s.locate(of)
	if err != nil {
		return err
	}
	for _, e := range s.cfg.Switch.Events.Events() {
		attr := e.Attr
		attr.SampleType, attr.WakeupEvents = perfdata.SampleTime, 1
		if attr.Type == perfdata.TypeTracepoint && attr.SamplePeriod == 0 {
			attr.SamplePeriod = 1
		}
		for _, at := range scopes {
			if err := s.switches.open(&attr, perfevent.Where{Thread: at.tid, CPU: at.cpu}); err != nil {
				return fmt.Errorf("--switch-output-event %s: %w", e.Name, err)
			}
		}
	}
	return nil
}

// open opens an event. A thread that has ended is skipped.
func (s *switchEvents) open(attr *perfdata.Attr, where perfevent.Where) error {
	fd, err := perfevent.Open(attr, where)
	if err != nil {
		if where.Gone(err) {
			return nil
		}
		return err
	}
	s.fds = append(s.fds, fd)
	ring, err := fd.Map(0)
	if err != nil {
		return fmt.Errorf("map a ring buffer: %w", err)
	}
	s.rings = append(s.rings, ring)
	return nil
}

// listen lets a waiter wake at their samples.
func (s *switchEvents) listen(w *perfevent.Waiter) error {
	for _, fd := range s.fds {
		if err := w.Add(fd); err != nil {
			return err
		}
	}
	return nil
}

// occurred reports whether there were samples since the last call.
func (s *switchEvents) occurred() (bool, error) {
	some := false
	for _, r := range s.rings {
		first, rest, err := r.Unread()
		if err != nil {
			return false, err
		}
		if n := len(first) + len(rest); n > 0 {
			some = true
			r.Release(n)
		}
	}
	return some, nil
}

func (s *switchEvents) close() {
	for _, r := range s.rings {
		r.Close()
	}
	for _, fd := range s.fds {
		fd.Close()
	}
	*s = switchEvents{}
}
