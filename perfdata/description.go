package perfdata

import (
	"errors"
	"sync/atomic"
)

// description is what a recording says about itself: its events and features. Records of a pipe add to it. Only tables and features are safe
// for concurrent use.
type description struct {
	events   eventList
	tables   atomic.Pointer[table] // built from events
	features atomic.Pointer[Features]
	big      bool
	effort   int64 // IDs that went into tables so far
}

// table returns a table of the current events. read is the number of bytes of the recording that were read so far.
func (d *description) table(read int64) (*table, error) {
	if !d.events.changed {
		return d.tables.Load(), nil
	}
	// Building a table takes time in proportion to the number of IDs. A recording that needs more time for tables than for its data is
	// malicious or damaged.
	d.effort += int64(len(d.events.byID))
	if d.effort > 1<<20+4*read {
		return nil, errors.New("events are added again and again between the records")
	}
	d.tables.Store(newTable(d.events.snapshot()))
	d.events.changed = false
	return d.tables.Load(), nil
}

// set adds or replaces a feature.
func (d *description) set(id FeatureID, b []byte) { d.features.Store(d.features.Load().with(id, b)) }

// feature applies a feature of a pipe. The error says that the names of the events could not be decoded.
func (d *description) feature(v *HeaderFeature) error {
	if len(v.Data) == 0 && v.ID != FeatureBranchStack && v.ID != FeatureStat {
		return nil // marks the end of the features
	}
	d.set(v.ID, v.Data)
	if v.ID != FeatureEventDesc {
		return nil
	}
	names, err := decodeFeature(v.ID, v.Data, d.big, 0)
	if err != nil {
		return err
	}
	d.events.name(names.(EventDescriptions))
	return nil
}
