package program

import "github.com/bperf/bperf/internal/count"

// Losses has the dropped runs of a program.
type Losses struct {
	Target  Target
	Dropped count.Dropped
}

// Losses returns the dropped runs of each program that is traced.
func (c *Counter) Losses() ([]Losses, error) {
	unlock, err := c.source.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	var all []Losses
	for _, s := range c.programs {
		if s.session == nil {
			continue
		}
		now, misses, err := s.session.now()
		if err != nil {
			return nil, err
		}
		l := Losses{Target: s.Target}
		for _, d := range c.dropped(now, misses) {
			l.Dropped.Add(&d)
		}
		all = append(all, l)
	}
	return all, nil
}

// dropped returns the runs that are not in the counts of each CPU, or not in the count of an event. The kernel does not report on which CPU it skipped
// a probe, so the runs with a skipped exit probe count for the first CPU.
func (c *Counter) dropped(of *counted, misses missedRuns) []count.Dropped {
	all := make([]count.Dropped, len(of.cpus))
	for i := range of.cpus {
		from, d := &of.cpus[i].Dropped, &all[i]
		begun := from[droppedBegun]
		entries := min(misses.Entry, begun)
		misses.Entry -= entries
		d[count.DroppedInterrupted] = entries + from[droppedMixed]
		d[count.DroppedNested] = min(from[droppedFull], begun-entries)
		d[count.DroppedUnderWay] = begun - entries - d[count.DroppedNested]
		d[count.DroppedSwitched] = from[droppedSwitched]
	}
	for ev, cpus := range c.source.cpus {
		for _, cpu := range cpus {
			d := &all[cpu][count.DroppedUnreadable]
			*d = max(*d, of.events[ev][cpu].unread)
		}
	}
	all[0][count.DroppedInterrupted] += misses.Exit
	return all
}

// Untraceable returns the reasons of all programs that are not traced.
func (c *Counter) Untraceable() (all []*Untraceable) {
	for _, s := range c.programs {
		if s.why != nil {
			all = append(all, s.why)
		}
	}
	return all
}
