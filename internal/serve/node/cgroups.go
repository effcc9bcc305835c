package node

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/bperf/bperf/internal/count/process"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/serve/container"
)

// relist is the time between two listings of all cgroups. Those that ran are known earlier.
const relist = 10 * time.Second

// cgroups adds up the counts of cgroups for their containers.
//
// The counter has a sum for each cgroup that ran. When a cgroup is gone, its sum is moved to the past of its container, one update
// later: the last thread of a cgroup may leave the CPU just after the cgroup is removed.
type cgroups struct {
	tree   *container.Tree
	forget func(cgroup uint64) error // of the counter

	listed  time.Time
	unfound map[uint64]bool                 // cgroups that ran and are not known, since the last listing
	removed map[uint64]*container.Container // cgroups that are gone, with sums that are not yet in the past
	past    map[*container.Container]*sum   // of cgroups that are gone
	present map[*container.Container]*sum   // of cgroups that exist

	unknown uint64 // switches of cgroups that were gone before they, or one above them, were found
}

// sum has counts of a container.
type sum struct {
	time     time.Duration
	off      [process.Reasons]time.Duration
	switches uint64
	readings []perfevent.Reading // by event of the counter
}

func (s *sum) add(o *process.Sum) {
	s.time += o.Time
	for why, t := range o.OffCPU {
		s.off[why] += t
	}
	s.switches += o.Switches
	if s.readings == nil {
		s.readings = make([]perfevent.Reading, len(o.Readings))
	}
	for i, r := range o.Readings {
		s.readings[i].Add(r)
	}
}

// openCgroups finds the cgroups. dirs may be empty; names is that of Config.
func openCgroups(dirs container.Dirs, names func(*container.Name), counter *process.Counter) (*cgroups, error) {
	if dirs == (container.Dirs{}) {
		var err error
		if dirs, err = container.FindDirs(); err != nil {
			return nil, err
		}
	}
	return &cgroups{tree: container.NewTree(dirs, names), forget: counter.Forget, past: make(map[*container.Container]*sum)}, nil
}

// update replaces the counts by those of new sums.
func (g *cgroups) update(now time.Time, sums []process.Sum) error {
	ending := g.removed
	lists := now.Sub(g.listed) >= relist
	var errs []error
	g.removed = make(map[uint64]*container.Container)
	if lists {
		gone, err := g.tree.Refresh(now)
		errs = append(errs, err)
		for _, r := range gone {
			g.removed[r.ID] = r.Container
		}
		g.listed, g.unfound = now, make(map[uint64]bool)
	}
	g.present = make(map[*container.Container]*sum)
	for i := range sums {
		s := &sums[i]
		if c, is := ending[s.ID]; is {
			addTo(g.past, c, s)
			errs = append(errs, g.forget(s.ID))
		} else if c, is := g.removed[s.ID]; is {
			addTo(g.present, c, s)
		} else if c, is := g.find(s.ID); is {
			addTo(g.present, c, s)
		} else if lists { // it is gone
			if c := g.above(s, ending); c != nil {
				addTo(g.past, c, s)
			} else {
				g.unknown += s.Switches
			}
			errs = append(errs, g.forget(s.ID))
		}
	}
	g.dropPast()
	return errors.Join(errs...)
}

// find returns the container of a cgroup, which is nil for none. It returns false if the cgroup cannot be found until the next listing.
func (g *cgroups) find(cgroup uint64) (*container.Container, bool) {
	if g.unfound[cgroup] {
		return nil, false
	}
	c, ok := g.tree.Of(cgroup)
	if !ok {
		g.unfound[cgroup] = true
	}
	return c, ok
}

// above returns the container that a cgroup belonged to, by the cgroups above it; nil if none of them is known. ending has cgroups that are
// gone, and were at the last update.
func (g *cgroups) above(s *process.Sum, ending map[uint64]*container.Container) *container.Container {
	for _, id := range slices.Backward(s.Above) {
		for _, gone := range []map[uint64]*container.Container{ending, g.removed} {
			if c, is := gone[id]; is {
				return c
			}
		}
		if c, is := g.tree.Of(id); is {
			return c
		}
	}
	return nil
}

// addTo adds a cgroup's sum to that of its container, unless that is nil.
func addTo(all map[*container.Container]*sum, c *container.Container, s *process.Sum) {
	if c == nil {
		return
	}
	if all[c] == nil {
		all[c] = new(sum)
	}
	all[c].add(s)
}

// dropPast drops the past of containers that the tree does not know any more.
func (g *cgroups) dropPast() {
	known := make(map[*container.Container]bool)
	for _, c := range g.tree.Containers() {
		known[c] = true
	}
	maps.DeleteFunc(g.past, func(c *container.Container, _ *sum) bool { return !known[c] })
}

// containers returns the counts of all containers, and of the units in which something ran.
func (g *cgroups) containers(e *events) []Container {
	var all []Container
	for _, c := range g.tree.Containers() {
		row := Container{Name: c.Name, Ended: !c.Ended.IsZero(), Readings: make([]perfevent.Reading, len(e.all))}
		ran := false
		for _, s := range []*sum{g.past[c], g.present[c]} {
			if s == nil {
				continue
			}
			ran = true
			row.CPUTime += s.time
			for why, t := range s.off {
				row.OffCPU[why] += t
			}
			row.Switches += s.switches
			for i, r := range s.readings {
				row.Readings[e.at[i]].Add(r)
			}
		}
		if ran || c.ID != "" {
			all = append(all, row)
		}
	}
	return all
}

func (g *cgroups) losses() []Loss {
	return []Loss{{"unknown_cgroup_switches", g.unknown}, {"cgroups_without_room", g.tree.Skipped()}}
}
