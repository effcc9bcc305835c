package replay

import (
	"io"
	"sync"

	"github.com/bperf/bperf/internal/profile"
)

// Intervals makes a profile of each interval of a recording of sums, and calls each with it when the interval has ended. Intervals are
// numbered from 0, and each profile has its own losses. The state of ended processes, and of code that was not sampled, is kept for one more interval.
func (r *Replay) Intervals(keep profile.Keys, each func(*profile.Profile) error) error {
	all := intervals{replay: r, keep: keep, fillers: map[uint32]*filler{}}
	next := uint32(0)
	handOver := func(end uint32) error {
		for ; next < end; next++ {
			p := all.take(next).finish()
			all.lose(&p.Losses)
			if err := each(p); err != nil {
				return err
			}
			all.forget()
		}
		return nil
	}
	pause := func() error {
		r.shift.wait()
		return handOver(r.sums.interval)
	}
	if err := r.run(all.newHandler, io.Discard, pause); err != nil {
		return err
	}
	return handOver(r.sums.interval + 1)
}

// intervals are the intervals that have not ended, with the goroutines' parts of them.
type intervals struct {
	replay *Replay
	keep   profile.Keys
	parts  []map[uint32]*part // one map for each goroutine
	lost   profile.Losses     // until the last interval that was handed over

	mu      sync.Mutex
	fillers map[uint32]*filler
}

func (v *intervals) newHandler(resolver *Resolver) Handler {
	parts := map[uint32]*part{}
	v.parts = append(v.parts, parts)
	return func(items []Item, out []byte) []byte {
		for i := range items {
			p := parts[items[i].interval]
			if p == nil {
				p = v.filler(items[i].interval).newPart(resolver)
				parts[items[i].interval] = p
			}
			p.add(&items[i])
		}
		return out
	}
}

func (v *intervals) filler(interval uint32) *filler {
	v.mu.Lock()
	defer v.mu.Unlock()
	f := v.fillers[interval]
	if f == nil {
		f = v.replay.newFiller(v.keep)
		v.fillers[interval] = f
	}
	return f
}

// take removes an interval that has ended and returns it. No handler may be running.
func (v *intervals) take(interval uint32) *filler {
	f := v.filler(interval)
	delete(v.fillers, interval)
	for _, parts := range v.parts {
		delete(parts, interval)
	}
	return f
}

// lose makes the losses since the start of the recording those of an interval. The reasons are of the interval already.
func (v *intervals) lose(l *profile.Losses) {
	reasons := l.Reasons
	l.Reasons = nil
	all := *l
	*l, v.lost = all.Since(&v.lost), all
	l.Reasons = reasons
}

// forget drops the state that neither the ended interval nor the next one uses. No handler may be running.
func (v *intervals) forget() {
	r := v.replay
	r.machine.forgetThreads()
	r.machine.forgetDSOs()
	r.locations.before = nil
	r.locations = &locations{before: r.locations}
	for _, resolver := range r.resolvers {
		resolver.forget()
	}
	for _, parts := range v.parts {
		for _, p := range parts { // locations get new numbers
			p.known, p.inlined = nil, nil
			clear(p.bySymbol)
			clear(p.callers[:])
			clear(p.trails[:])
		}
	}
}
