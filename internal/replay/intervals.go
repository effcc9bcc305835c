package replay

import (
	"encoding/binary"
	"io"
	"sync"

	"github.com/bperf/bperf/internal/perfdata"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/profile"
)

// Intervals makes a profile of each interval of a recording of sums, as soon as it is over. Intervals are counted from 0 on.
func (r *Replay) Intervals(keep profile.Keys, each func(*profile.Profile) error) error {
	all := intervals{replay: r, keep: keep, fillers: map[uint32]*filler{}}
	newHandler := func(resolver *Resolver) Handler {
		return (&chains{Resolver: resolver, fill: all.fill}).handle
	}
	next := uint32(0)
	tell := func(end uint32) error {
		for ; next < end; next++ {
			p := all.filler(next).finish()
			delete(all.fillers, next)
			if err := each(p); err != nil {
				return err
			}
		}
		return nil
	}
	if err := r.run(newHandler, io.Discard, func() error { return tell(r.interval) }); err != nil {
		return err
	}
	return tell(r.interval + 1)
}

// intervals hands samples out to the fillers of their intervals.
type intervals struct {
	replay *Replay
	keep   profile.Keys

	mu      sync.Mutex // of fillers, and of all that they have
	fillers map[uint32]*filler
}

func (v *intervals) filler(interval uint32) *filler {
	f := v.fillers[interval]
	if f == nil {
		f = v.replay.newFiller(v.keep)
		v.fillers[interval] = f
	}
	return f
}

func (v *intervals) fill(c *chains, items []Item) {
	v.mu.Lock()
	defer v.mu.Unlock()
	c.each(items, func(item *Item, at *Location, chain []Frame) { v.filler(item.interval).add(item, at, chain) })
}

// intervalOf is the interval that a sample is of. Samples that are no sums do not tell: they are of that of the sums around them.
func (r *Replay) intervalOf(record *perfdata.Record, s *perfdata.Sample) uint32 {
	if !r.options.Sums || isTracepoint(record.Event) || len(s.Raw) < intervalAt+4 {
		return r.interval
	}
	of := binary.LittleEndian.Uint32(s.Raw[intervalAt:])
	r.interval = max(r.interval, of)
	return of
}

// isTracepoint tells events whose samples are not added up in the kernel.
func isTracepoint(e *perfdata.Event) bool { return e != nil && e.Attr.Type == perfevent.TypeTracepoint }
