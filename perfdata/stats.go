package perfdata

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Stats are statistics of the records that were read.
type Stats struct {
	Bytes      int64                 // bytes of data that were read
	Records    map[RecordType]uint64 // number of records, both COMPRESSED ones and the records inside of them
	Rounds     uint64                // number of FINISHED_ROUND records
	OutOfOrder uint64                // records that are older than one that was returned before
	Truncated  bool                  // the file is shorter than its header says, or its writer did not close it
	Missing    []FeatureID           // features that lie beyond the end of the file
	Damaged    []error               // one error for each feature that could not be decoded, or only in part
}

// counters are the source of Stats. Reading them is safe while the recording is being read.
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

// maxOtherTypes bounds the number of unknown types that are counted.
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

// maxDamaged bounds the number of errors that are kept: a pipe can have any number of damaged features.
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
