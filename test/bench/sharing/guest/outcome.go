package main

import "slices"

// outcome is the outcome of sessions that count the same events of the same target.
type outcome struct {
	started int
	counts  []counts // of the sessions that did not fail
	failure error    // of the first session that failed
}

// add adds the counts or the error of a session.
func (o *outcome) add(c counts, err error) {
	o.started++
	switch {
	case err == nil:
		o.counts = append(o.counts, c)
	case o.failure == nil:
		o.failure = err
	}
}

// counting returns the number of sessions that counted all their events.
func (o outcome) counting() int {
	n := 0
	for _, c := range o.counts {
		if c.complete() {
			n++
		}
	}
	return n
}

// running returns the smallest and the largest percentage of the time that an event of any session was on a counter.
func (o outcome) running() (least, most float64) {
	var all []float64
	for _, c := range o.counts {
		for _, r := range c {
			all = append(all, r.running)
		}
	}
	if len(o.counts) < o.started {
		all = append(all, 0)
	}
	return slices.Min(all), slices.Max(all)
}

// spread returns the difference between the smallest and the largest count of an event among the sessions, in percent of the largest. It
// returns that of the event with the largest difference.
func (o outcome) spread() float64 {
	least, most := map[string]float64{}, map[string]float64{}
	for _, c := range o.counts {
		for _, r := range c {
			if !r.counted {
				continue
			}
			if _, there := least[r.event]; !there {
				least[r.event] = r.count
			}
			least[r.event] = min(least[r.event], r.count)
			most[r.event] = max(most[r.event], r.count)
		}
	}
	widest := 0.0
	for event := range least {
		if most[event] > 0 {
			widest = max(widest, 100*(most[event]-least[event])/most[event])
		}
	}
	return widest
}
