// Package direct counts with perf events that are opened for one session: for each event one file
// descriptor per CPU, thread, or cgroup and CPU of the target.
package direct

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/perfevent"
)

// Counter is a count.Counter made of perf events. It is not safe for concurrent use.
type Counter struct {
	sets   []set              // by CPU
	clocks []*perfevent.Event // count nothing; see openClocks
	cells  []count.Cell       // events in order; the readings are the last ones
	errs   []error            // by event

	group   []perfevent.Reading // room for the largest group
	enabled time.Time           // zero while disabled
	last    time.Time           // of the last reading since then
}

// set is the events of a group in one place. They are enabled and read at once, through the first.
type set struct {
	cpu    int // or count.None
	events []*perfevent.Event
	cells  []int // of the events, in Counter.cells
	pinned bool
	group  bool // opened with ReadFormatGroup
}

// Enable starts counting.
func (c *Counter) Enable() error {
	if err := c.each(func(s *set) error { return s.events[0].Enable() }); err != nil {
		return fmt.Errorf("start counting: %w", err)
	}
	if c.enabled.IsZero() {
		c.enabled = time.Now()
		c.last = c.enabled
	}
	return nil
}

// Disable stops counting.
func (c *Counter) Disable() error {
	now := time.Now()
	err := c.each(func(s *set) error {
		if err := s.events[0].Disable(); err != nil || !s.pinned {
			return err
		}
		return c.update(s, now) // the last time that is added for a lost counter
	})
	if err != nil {
		return fmt.Errorf("stop counting: %w", err)
	}
	c.enabled = time.Time{}
	return nil
}

// Read appends the current readings to dst.
//
// A pinned event that could not stay on a counter keeps the reading it had, while its time enabled
// goes on: it was not running from then on.
func (c *Counter) Read(dst []count.Cell) ([]count.Cell, error) {
	now := time.Now()
	err := c.each(func(s *set) error { return c.update(s, now) })
	if err != nil {
		return nil, readError(err)
	}
	c.last = now
	return append(dst, c.cells...), nil
}

// update reads a set, unless it has lost its counter.
func (c *Counter) update(s *set, now time.Time) error {
	err := c.readSet(s)
	if s.pinned && errors.Is(err, perfevent.ErrPinned) {
		c.addLost(s, now)
		return nil
	}
	return err
}

// addLost adds the time since the last reading to pinned events that have lost their counter.
func (c *Counter) addLost(s *set, now time.Time) {
	if c.enabled.IsZero() {
		return
	}
	for _, cell := range s.cells {
		c.cells[cell].Enabled += uint64(now.Sub(c.last))
	}
}

// Descriptors calls f with each perf event: the index of what it counts in the list, its CPU, and its descriptor, which stays the
// counter's.
func (c *Counter) Descriptors(f func(event, cpu, fd int) error) error {
	for _, s := range c.sets {
		for i, e := range s.events {
			if err := f(c.cells[s.cells[i]].Event, s.cpu, e.FD()); err != nil {
				return err
			}
		}
	}
	return nil
}

// each calls f for all sets, those of a CPU from there.
func (c *Counter) each(f func(*set) error) error {
	for rest := c.sets; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].cpu == rest[0].cpu {
			n++
		}
		here := rest[:n]
		rest = rest[n:]
		err := onCPU(here[0].cpu, len(here), func() error {
			for i := range here {
				if err := f(&here[i]); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// onCPU calls f, which does something with so many events of a CPU, there if they are enough to be worth the way.
func onCPU(cpu, events int, f func() error) error {
	const enough = 8
	if cpu == count.None || events < enough {
		return f()
	}
	return perfevent.OnCPU(cpu, f)
}

// readError puts the errno of reading an event into words.
func readError(err error) error {
	if errors.Is(err, syscall.ECHILD) {
		return fmt.Errorf("read a group of events: %w. A thread that started while the group was opened has only a part of it. "+
			"Start again, or leave out the braces", err)
	}
	return fmt.Errorf("read a counter: %w", err)
}

func (c *Counter) readSet(s *set) error {
	if !s.group {
		reading, err := s.events[0].Read()
		if err == nil {
			c.cells[s.cells[0]].Reading = reading
		}
		return err
	}
	readings := c.group[:len(s.cells)]
	if err := s.events[0].ReadGroup(readings); err != nil {
		return err
	}
	for i, cell := range s.cells {
		c.cells[cell].Reading = readings[i]
	}
	return nil
}

// Err says why an event is not counted: a *count.Unsupported or, in a session where other events
// are counted, an *AccessError.
func (c *Counter) Err(event int) error { return c.errs[event] }

// Close closes all events; the counter cannot be used any more.
func (c *Counter) Close() error {
	var errs []error
	c.each(func(s *set) error {
		for _, e := range s.events {
			errs = append(errs, e.Close())
		}
		return nil
	})
	for _, clock := range c.clocks {
		errs = append(errs, clock.Close())
	}
	c.sets, c.clocks, c.cells = nil, nil, nil
	return errors.Join(errs...)
}
