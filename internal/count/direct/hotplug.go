package direct

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"syscall"
	"time"

	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/internal/target"
)

// followCPUs closes perf events when their CPU goes offline and opens them when it comes online, until Close. The kernel does not
// restart a CPU's perf events when it comes back.
func (c *Counter) followCPUs(u target.CPUChanges) {
	for e := range u.All() {
		c.mu.Lock()
		if c.opener != nil {
			c.failed = errors.Join(c.failed, c.changeCPU(e))
		}
		c.mu.Unlock()
	}
}

// Failed returns the errors of following CPUs that went offline or came online, or nil. Read returns the same error.
func (c *Counter) Failed() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

// Joined returns the CPUs whose events were opened while the counter was enabled, in ascending order: CPUs that came online, or may have. The counts do
// not include what ran there before the kernel reported them.
func (c *Counter) Joined() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.joined))
}

// changeCPU handles a message. After lost messages, any CPU may have gone offline and come back, so it reopens all sets.
func (c *Counter) changeCPU(e target.CPUChange) error {
	lost := e.Number == 0
	for i := range c.sets {
		s := &c.sets[i]
		if s.cpu != e.CPU && !lost || s.members[0].event.Uncore { // drivers of uncore PMUs move their events to another CPU
			continue
		}
		if err := c.closeSet(s); err != nil {
			return err
		}
	}
	if !e.Online {
		return nil
	}
	if err := c.opener.openCgroups(); err != nil {
		return err
	}
	defer c.opener.closeCgroups()
	for i := range c.sets {
		s := &c.sets[i]
		if s.events != nil || s.cpu != e.CPU && !lost {
			continue
		}
		if err := c.openSet(s); err != nil {
			return fmt.Errorf("count on CPU %d, which has come online: %w", s.cpu, err)
		}
		if s.events != nil && !c.enabled.IsZero() {
			c.joined[s.cpu] = true
		}
	}
	return nil
}

// closeSet closes a set and keeps its readings. The kernel still has them while the CPU is offline.
func (c *Counter) closeSet(s *set) error {
	if s.events == nil {
		return nil
	}
	if err := c.update(s, time.Now()); err != nil {
		return readError(err)
	}
	s.before = make([]perfevent.Reading, len(s.cells))
	for i, cell := range s.cells {
		s.before[i] = c.cells[cell].Reading
	}
	events := s.events
	s.events = nil
	err := c.fillIn(s)
	for _, e := range events {
		err = errors.Join(err, e.Close())
	}
	return err
}

// openSet opens a set on a CPU that came online. If the CPU is offline again, the set stays closed.
func (c *Counter) openSet(s *set) error {
	err := c.opener.openSet(s)
	if err == syscall.ENODEV && procfs.IsOffline(s.cpu) {
		return nil
	}
	if err != nil {
		return err
	}
	if !c.enabled.IsZero() {
		if err := s.events[0].Enable(); err != nil {
			return err
		}
	}
	return c.fillIn(s)
}

// dropPart closes a set that is only partly open because its CPU went offline.
func (s *set) dropPart() {
	if len(s.events) == len(s.members) {
		return
	}
	for _, e := range s.events {
		e.Close()
	}
	s.events = nil
}
