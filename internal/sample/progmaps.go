package sample

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bperf/bperf/internal/kernel"
	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/internal/replay"
	"github.com/bperf/bperf/internal/userprog"
)

// programMaps are the maps of the user's programs that are profiles. Each number in their values is an event, listed after the sampled events.
type programMaps struct {
	all   []*userprog.Profile
	first int // index of their first event in replay.Sums.Others
}

// hasKey reports whether the entries of a map have a key.
func (m *programMaps) hasKey(key string) bool {
	return slices.ContainsFunc(m.all, func(p *userprog.Profile) bool { return slices.Contains(p.Keys(), key) })
}

// events returns the names of the events.
func (m *programMaps) events() []string {
	var names []string
	for _, p := range m.all {
		names = append(names, p.Values...)
	}
	return names
}

// read adds the changes of the maps since the last call to an interval. end marks the last call.
func (m *programMaps) read(interval int, end bool, to *replay.Sums) error {
	now, _, err := kernel.ClockAndWall(sumClock)
	if err != nil {
		return err
	}
	event := m.first
	for _, p := range m.all {
		err := p.Each(!end, func(e *userprog.Entry) error {
			addEntry(p, e, event, &replay.Sum{Time: now, Interval: uint32(interval)}, to)
			return nil
		})
		if err != nil {
			return err
		}
		event += len(p.Values)
	}
	return nil
}

// addEntry adds a sum for each value of an entry. first is the index of the first value's event in replay.Sums.Others.
func addEntry(p *userprog.Profile, e *userprog.Entry, first int, sum *replay.Sum, to *replay.Sums) {
	sum.Count, sum.Comm = 1, e.Comm
	sum.PID, sum.TID, sum.CPU, sum.Cgroup, sum.IP = e.PID, e.TID, e.CPU, e.Cgroup, e.IP
	if len(e.Kernel)+len(e.User) > 0 {
		setStack(sum, stack{e.Kernel, e.User})
	}
	for i, label := range e.Labels {
		sum.Tags = append(sum.Tags, replay.SumTag{Key: p.Labels[i], Value: label})
	}
	for i, value := range e.Values {
		if value != 0 {
			sum.Event, sum.Value = replay.Other(first+i), value
			to.Add(sum)
		}
	}
}

// mark marks the events of a profile whose samples are entries of maps.
func (m *programMaps) mark(p *profile.Profile) {
	events := m.events()
	for i := range events {
		p.Events[len(p.Events)-len(events)+i].Entries = true
	}
}

// addTo adds the maps' losses.
func (m *programMaps) addTo(l *profile.Losses) {
	for _, p := range m.all {
		if p.NoStack > 0 {
			l.Reasons = append(l.Reasons, profile.Loss{Reason: "entries of the map " + p.Map + " without their stacks, whose places others have", Samples: p.NoStack})
		}
	}
}

// missing returns a description of what is missing in the maps; empty if nothing is.
func (m *programMaps) missing() string {
	var lines []string
	for _, p := range m.all {
		if p.NoStack > 0 {
			lines = append(lines, fmt.Sprintf("%d entries of the map %s have no stack: others have their places. Give the map of stacks more entries", p.NoStack, p.Map))
		}
		if p.Cut {
			lines = append(lines, fmt.Sprintf("entries of the map %s are missing: it has too many, or they changed while they were read", p.Map))
		}
	}
	return strings.Join(lines, "\n")
}
