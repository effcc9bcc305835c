package perfdata

import "slices"

// eventList is the events of a recording while they get to be known. An event that has been given away is not changed: another with the
// same index takes its place.
type eventList struct {
	all     []*Event
	byID    map[uint64]int // index of the event
	changed bool           // since the table was made
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

// name names the events, which are those with the same IDs, or where there are none those at the same place.
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

// snapshot is the list as it is now.
func (l *eventList) snapshot() []*Event { return slices.Clone(l.all) }
