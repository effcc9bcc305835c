package perfdata

import "slices"

// eventList collects the events of a recording as records and features describe them. It never changes an *Event, which callers may
// hold: an update replaces the event by a new one with the same index.
type eventList struct {
	all     []*Event
	byID    map[uint64]int // index of the event
	changed bool           // since the last table was built
}

func (l *eventList) add(attr Attr, ids []uint64) {
	if l.byID == nil {
		l.byID = map[uint64]int{}
	}
	e := &Event{Attr: attr, IDs: ids, Index: len(l.all)}
	for _, id := range ids {
		if _, taken := l.byID[id]; !taken {
			l.byID[id] = e.Index
		}
	}
	l.all = append(l.all, e)
	l.changed = true
}

func (l *eventList) update(u *EventUpdate) {
	at, known := l.byID[u.ID]
	if !known {
		return
	}
	e := *l.all[at]
	switch u.Kind {
	case EventUpdateUnit:
		e.Unit = u.Unit
	case EventUpdateScale:
		e.Scale = u.Scale
	case EventUpdateName:
		e.Name = u.Name
	case EventUpdateCPUs:
		e.CPUs = u.CPUs.CPUs
	}
	l.all[at] = &e
	l.changed = true
}

// name sets the names of events that have none. A description belongs to the event with its first ID. If no event has that ID, it belongs to
// the event with the same index.
func (l *eventList) name(descriptions EventDescriptions) {
	for i, d := range descriptions {
		at := i
		if len(d.IDs) > 0 {
			if known, is := l.byID[d.IDs[0]]; is {
				at = known
			}
		}
		if at < len(l.all) && l.all[at].Name == "" {
			e := *l.all[at]
			e.Name = d.Name
			l.all[at] = &e
			l.changed = true
		}
	}
}

// snapshot returns a copy of the list.
func (l *eventList) snapshot() []*Event { return slices.Clone(l.all) }
