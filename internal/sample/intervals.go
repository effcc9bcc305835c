package sample

import (
	"time"

	"github.com/bperf/bperf/internal/profile"
)

// intervals are the times between which samples become one profile each.
type intervals struct {
	number   int // of the current interval, from 0
	current  bounds
	finished []bounds       // intervals whose profiles are not complete, in order
	before   profile.Losses // until the last finished interval
	settle   bool           // sums of an ended interval still wait to be ordered with records of the same time
}

// bounds are when an interval began and ended, and what was lost between.
type bounds struct {
	start, end time.Time
	losses     profile.Losses
}

// finish ends the current interval. losses are those since the start of the session.
func (i *intervals) finish(end time.Time, losses profile.Losses) {
	i.current.end, i.current.losses = end, losses.Since(&i.before)
	i.finished = append(i.finished, i.current)
	i.before, i.current, i.settle = losses, bounds{start: end}, true
	i.number++
}

// complete sets the times of the next interval's profile, and adds the losses of the programs in the kernel to those of the recording.
func (s *sampler) complete(p *profile.Profile) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.intervals.finished) == 0 { // the last interval
		losses, err := s.losses()
		if err != nil {
			return err
		}
		s.intervals.finish(time.Now(), losses)
	}
	of := s.intervals.finished[0]
	s.intervals.finished = s.intervals.finished[1:]
	p.Info.Start, p.Info.Duration = of.start, of.end.Sub(of.start)
	p.Losses.Add(&of.losses)
	s.cfg.Record.Allowance.Recover()
	s.maps.mark(p)
	return nil
}

// losses returns what the programs in the kernel have lost so far. It lacks what is known only at the end: the estimate from the events'
// own counts.
func (s *sampler) losses() (l profile.Losses, err error) {
	all, err := s.counter.counts()
	if err != nil {
		return l, err
	}
	var t Totals
	for i := range all {
		t.add(&all[i])
	}
	t.NoStack += s.counter.noStack
	if s.cfg.measuresWaits() && s.counter.waits != nil {
		lost, _, err := s.counter.waits.lost()
		if err != nil {
			return l, err
		}
		t.OffCPU = &OffCPU{Lost: lost}
	}
	t.addTo(&l)
	return l, nil
}
