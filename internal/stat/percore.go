package stat

import (
	"slices"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/target"
)

// sumsCores reports whether the event's counts are added up by core, although rows are CPUs.
func (c *Config) sumsCores(e *event.Event) bool { return c.Aggregation == AggregateNone && e.PerCore }

// aggregationOf returns the aggregation of the rows of an event.
func (c *Config) aggregationOf(e *event.Event) Aggregation {
	if c.sumsCores(e) && !c.PerCoreThreads {
		return AggregateCore
	}
	return c.Aggregation
}

// needsTopology reports whether rows need the CPUs' places in the machine.
func (c *Config) needsTopology() bool {
	return c.Aggregation.needsTopology() || slices.ContainsFunc(c.Events.Events(), c.sumsCores)
}

// shareCores makes the row of each CPU count all CPUs of its core, for events that are added up by core. rows has the row of each cell.
func (l *layout) shareCores(cells []count.Cell, rows []int, cfg *Config, topo target.Topology) {
	type core struct {
		event, cgroup, program int
		id                     string
	}
	of := make(map[core][]int)
	coreOf := func(cell *count.Cell) core {
		return core{cell.Event, cell.Cgroup, cell.Program, topo[cell.CPU].CoreID()}
	}
	summed := func(i int) bool { return cells[i].CPU != count.None && cfg.sumsCores(l.counts[i]) }
	for i := range cells {
		if summed(i) {
			of[coreOf(&cells[i])] = append(of[coreOf(&cells[i])], i)
		}
	}
	for i := range cells {
		if !summed(i) {
			continue
		}
		for _, other := range of[coreOf(&cells[i])] {
			if other != i {
				l.cells[rows[i]] = append(l.cells[rows[i]], other)
			}
		}
	}
}
