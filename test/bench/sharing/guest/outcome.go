package main

import "slices"

// outcome is what became of sessions that were started to count the same.
type outcome struct {
	started int
	counts  []counts // of those that lasted
	failure error    // of the first that did not
}

// add takes what one session ended with.
func (o *outcome) add(c counts, err error) {
	o.started++
	switch {
	case err == nil:
		o.counts = append(o.counts, c)
	case o.failure == nil:
		o.failure = err
	}
}

// counting is how many sessions counted all their events.
func (o outcome) counting() int {
	n := 0
	for _, c := range o.counts {
		if c.complete() {
			n++
		}
	}
	return n
}

// running is the least and the most of the time, in percent, that an event of any session was on a counter.
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

// spread is by how much the sessions' counts of the same event differ, in percent of the largest: of the event for which
// that is most.
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
