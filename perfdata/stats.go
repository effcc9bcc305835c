package perfdata

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Stats is what was seen on the way through the records.
type Stats struct {
	Bytes      int64                 // read of the data
	Records    map[RecordType]uint64 // with COMPRESSED ones, and what was in them
	Rounds     uint64                // FINISHED_ROUND
	OutOfOrder uint64                // records that are older than one that was given before
	Truncated  bool                  // the file ends before its end, or the writer did not get to close it
	Missing    []FeatureID           // features that are behind the end of the file
	Damaged    []error               // features that cannot be read, or in part only, and why: what they tell of is missing
}

// counters are what Stats is made of. They can be read while the recording is.
type counters struct {
	bytes      atomic.Int64
	records    [128]atomic.Uint64 // by type
	rounds     atomic.Uint64
	outOfOrder atomic.Uint64
	truncated  atomic.Bool
	missing    []FeatureID

	mu      sync.Mutex
	other   map[RecordType]uint64 // types from 128 on
	damaged []error
}

// maxOtherTypes bounds how many types that nobody has heard of are told apart.
const maxOtherTypes = 1024

func (c *counters) count(t RecordType) {
	if int(t) < len(c.records) {
		c.records[t].Add(1)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.other == nil {
		c.other = map[RecordType]uint64{}
	}
	if _, known := c.other[t]; known || len(c.other) < maxOtherTypes {
		c.other[t]++
	}
}

// maxDamaged bounds how many errors of features are kept: in pipes there can be any number.
const maxDamaged = 64

func (c *counters) damage(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.damaged) < maxDamaged {
		c.damaged = append(c.damaged, err)
	}
}

func (c *counters) snapshot() Stats {
	s := Stats{
		Bytes:      c.bytes.Load(),
		Records:    map[RecordType]uint64{},
		Rounds:     c.rounds.Load(),
		OutOfOrder: c.outOfOrder.Load(),
		Truncated:  c.truncated.Load(),
		Missing:    c.missing,
	}
	for t := range c.records {
		if n := c.records[t].Load(); n > 0 {
			s.Records[RecordType(t)] = n
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.Damaged = slices.Clone(c.damaged)
	for t, n := range c.other {
		s.Records[t] = n
	}
	return s
}
