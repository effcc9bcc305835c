package shared

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/internal/target"
)

// followCPUs opens perf events when CPUs come online and closes them when CPUs go offline, until the session ends.
func (c *Counter) followCPUs(u target.CPUChanges) {
	for e := range u.All() {
		c.mu.Lock()
		if c.o != nil {
			c.failed = errors.Join(c.failed, c.changeCPU(e))
		}
		c.mu.Unlock()
	}
}

// changeCPU handles a message. All sessions get it; the first one closes the perf events of a CPU that went offline.
func (c *Counter) changeCPU(e target.CPUChange) error {
	unlock, err := c.dir.lock(alone)
	if err != nil {
		return err
	}
	defer unlock()
	b, err := openBook(c.o)
	if err != nil {
		return err
	}
	s, err := readSlots(c.o)
	if err != nil {
		return err
	}
	if e.Number > b.state.Hotplug {
		b.state.Hotplug = e.Number
		if err := b.writeState(); err != nil {
			return err
		}
		if !e.Online {
			err = s.closeCPU(e.CPU)
		}
	}
	if e.Online {
		err = c.openLater(s, e)
	}
	if c.afterCPUs != nil {
		err = errors.Join(err, c.afterCPUs())
	}
	return err
}

// closeCPU closes all perf events of a CPU that went offline. They do not count again when the CPU comes back.
func (s *slots) closeCPU(cpu int) error {
	for i := range s.table {
		if s.table[i].used() && s.table[i].Leader == 0 {
			if err := s.closeOn(i, cpu); err != nil {
				return err
			}
		}
	}
	return nil
}

// Joined returns the CPUs that came online while the counter was enabled, in ascending order. The counts do not include what ran there before the kernel
// reported them.
func (c *Counter) Joined() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.joined))
}

// openLater opens this session's events on CPUs that came online. Another session may already have opened those of the message's CPU.
func (c *Counter) openLater(s *slots, e target.CPUChange) error {
	online, err := procfs.OnlineCPUs()
	if err != nil {
		return err
	}
	for _, event := range c.events {
		if event.err != nil || c.followed[event.slot] != nil {
			continue
		}
		for _, cpu := range online {
			if !event.wants(cpu) {
				continue
			}
			isOpen := s.table[event.slot].has(cpu)
			if c.enabled && (!isOpen || e.CPU == cpu && e.Number != 0) {
				c.joined[cpu] = true
			}
			if isOpen {
				continue
			}
			if err := c.o.syncCPUs([]int{cpu}, syncForget, 1<<event.slot); err != nil {
				return err
			}
			if err := s.openOn(event.slot, cpu); err != nil {
				return fmt.Errorf("count on CPU %d, which has come online: %w", cpu, err)
			}
		}
	}
	return nil
}

// wants reports whether an event must be open on a CPU.
func (e counted) wants(cpu int) bool { return e.opens == nil || slices.Contains(e.opens, cpu) }
