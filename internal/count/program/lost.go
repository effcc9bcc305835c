package program

import "github.com/bperf/bperf/internal/count"

// Losses are the runs of a program that are not in its counts.
type Losses struct {
	Target  Target
	Dropped count.Dropped
}

// Losses are those of each program that is traced.
func (c *Counter) Losses() ([]Losses, error) {
	var all []Losses
	for _, s := range c.programs {
		if s.probes == nil {
			continue
		}
		state, _, err := s.probes.read()
		if err != nil {
			return nil, err
		}
		misses, err := c.misses(s.probes)
		if err != nil {
			return nil, err
		}
		l := Losses{Target: s.Target}
		for _, d := range dropped(state, misses) {
			l.Dropped.Add(&d)
		}
		all = append(all, l)
	}
	return all, nil
}

// dropped are the runs that are not in the counts of each CPU. The kernel does not say where it left out probes: the runs whose
// probe at the exit it left out are put down to the first CPU.
func dropped(state []probesCpu, misses Misses) []count.Dropped {
	all := make([]count.Dropped, len(state))
	for i := range state {
		from, d := &state[i].Dropped, &all[i]
		begun := from[droppedBegun]
		entries := min(misses.Entry, begun)
		misses.Entry -= entries
		d[count.DroppedInterrupted] = entries + from[droppedMixed]
		d[count.DroppedNested] = min(from[droppedFull], begun-entries)
		d[count.DroppedUnderWay] = begun - entries - d[count.DroppedNested]
		d[count.DroppedSwitched] = from[droppedSwitched]
		d[count.DroppedUnreadable] = from[droppedUnreadable]
	}
	all[0][count.DroppedInterrupted] += misses.Exit
	return all
}

// Untraceable says of each program that is not traced why.
func (c *Counter) Untraceable() (all []*Untraceable) {
	for _, s := range c.programs {
		if s.why != nil {
			all = append(all, s.why)
		}
	}
	return all
}
