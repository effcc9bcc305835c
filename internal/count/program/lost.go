package program

import (
	"fmt"
	"strings"
)

// Losses are the runs of a program that are not in its counts, by reason.
type Losses struct {
	Target      Target
	UnderWay    uint64 // when the session began to count
	Interrupted uint64 // a probe was at work on that CPU when they began or ended, or they came while theirs was
	Nested      uint64 // more of them had begun on a CPU at a time than there is room for
	Switched    uint64 // other tasks ran before they ended: they slept, or were preempted
	Unreadable  uint64 // an event could not be read
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
		var begun, full, mixed uint64
		for i := range state {
			begun += state[i].Dropped[droppedBegun]
			full += state[i].Dropped[droppedFull]
			mixed += state[i].Dropped[droppedMixed]
			l.Switched += state[i].Dropped[droppedSwitched]
			l.Unreadable += state[i].Dropped[droppedUnreadable]
		}
		entries := min(misses.Entry, begun)
		l.Interrupted = entries + misses.Exit + mixed
		l.Nested = min(full, begun-entries)
		l.UnderWay = begun - entries - l.Nested
		all = append(all, l)
	}
	return all, nil
}

// Total is the number of all.
func (l Losses) Total() uint64 {
	return l.UnderWay + l.Interrupted + l.Nested + l.Switched + l.Unreadable
}

// String lists what there is; it is empty if there is nothing.
func (l Losses) String() string {
	var parts []string
	for _, p := range []struct {
		n    uint64
		what string
	}{
		{l.UnderWay, "were under way when counting began"},
		{l.Interrupted, "came while the kernel ran bperf's own program on that CPU"},
		{l.Nested, "were begun on a CPU on top of too many others"},
		{l.Switched, "slept or were preempted"},
		{l.Unreadable, "had an event that could not be read"},
	} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	return strings.Join(parts, ", ")
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
