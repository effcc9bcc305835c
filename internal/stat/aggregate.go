package stat

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/target"
)

// layout maps cells to rows. A session builds it once, because its cells stay the same from reading to reading; it rebuilds it when it adds
// a followed BPF program.
type layout struct {
	rows   []Row // without values
	cells  [][]int
	counts []*event.Event // of each cell
	raw    bool
}

// position is what the rows are sorted by.
type position struct {
	group int // index of the cgroup or BPF program, in the order of the command line
	place int // CPU, index of a thread, or the first CPU of a core, die, socket or node
	event int // index of the first event of the row
}

// newLayout returns the layout for the cells of a session. An event that the machine cannot count gets a row in each place and cgroup, too.
func newLayout(c *counters, cells []count.Cell, cfg *Config, topo target.Topology) *layout {
	l := &layout{raw: cfg.Raw, counts: make([]*event.Event, len(cells))}
	index := make(map[position]int)
	leaders, names := c.rows(cfg.NoMerge)
	add := func(cell count.Cell) int {
		err := c.errAt(cell.Event, cell.Program)
		if cfg.SumPrograms {
			cell.Program = count.None
		}
		first := leaders[cell.Event]
		at := position{group: max(cell.Cgroup, cell.Program), event: first}
		place := Place{}
		switch {
		case cfg.Aggregation == AggregateGlobal:
		case cfg.Aggregation == AggregateThread:
			if cell.Thread != count.None {
				at.place = cell.Thread
				t := c.target.Threads[cell.Thread]
				place.ID = fmt.Sprintf("%s-%d", t.Comm, t.TID)
			}
		default:
			cpu := cell.CPU
			if cpu == count.None {
				cpu = c.target.CPUs[0] // tool events have no CPU; perf shows them on the first
			}
			by := cfg.aggregationOf(c.events[cell.Event])
			place.ID, at.place = cpuPlace(topo, by, cpu)
			place.Core = by != cfg.Aggregation
		}
		i, ok := index[at]
		if !ok {
			i = len(l.rows)
			index[at] = i
			row := Row{Event: c.events[first], Name: names[first], Place: place, Err: err}
			if cell.Cgroup != count.None {
				row.Cgroup = c.cgroups[cell.Cgroup]
			}
			if cell.Program != count.None {
				row.Program = c.programs[cell.Program]
			}
			l.rows = append(l.rows, row)
			l.cells = append(l.cells, nil)
		}
		return i
	}
	rowOf := make([]int, len(cells))
	for i, cell := range cells {
		l.counts[i] = c.events[cell.Event]
		row := add(cell)
		rowOf[i] = row
		l.cells[row] = append(l.cells[row], i)
		l.rows[row].Place.Counters++
		l.rows[row].Err = nil
	}
	if cfg.PerCoreThreads {
		l.shareCores(cells, rowOf, cfg, topo)
	}
	for ev := range c.events {
		for _, at := range c.places(ev, cfg.Aggregation) {
			if c.errAt(ev, at.Program) != nil {
				add(at)
			}
		}
	}
	l.sort(index, cfg.Aggregation)
	return l
}

// sort puts the rows in perf's order: by cgroup or BPF program first. Within one, rows are ordered by place where places are sums over
// CPUs, and otherwise by event.
func (l *layout) sort(index map[position]int, by Aggregation) {
	order := make([]position, 0, len(index))
	for p := range index {
		order = append(order, p)
	}
	byEvent := by == AggregateNone || by == AggregateThread
	slices.SortFunc(order, func(a, b position) int {
		place, ev := cmp.Compare(a.place, b.place), cmp.Compare(a.event, b.event)
		if byEvent {
			place, ev = ev, place
		}
		return cmp.Or(cmp.Compare(a.group, b.group), place, ev)
	})
	rows, cells := make([]Row, len(order)), make([][]int, len(order))
	for i, p := range order {
		rows[i], cells[i] = l.rows[index[p]], l.cells[index[p]]
	}
	l.rows, l.cells = rows, cells
}

// cpuPlace returns the part of the machine that contains a CPU, and a number to sort by.
func cpuPlace(topo target.Topology, by Aggregation, cpu int) (id string, order int) {
	if by == AggregateNone {
		return fmt.Sprintf("CPU%d", cpu), cpu
	}
	at := topo[cpu]
	const span = 1 << 16
	switch by {
	case AggregateCore:
		return at.CoreID(), (at.Socket*span+at.Die)*span + at.Core
	case AggregateCluster:
		return at.ClusterID(), (at.Socket*span+at.Die)*span + at.Cluster
	case AggregateCache:
		return at.CacheID(), (at.Socket*span+at.Die)*span + at.Cache
	case AggregateDie:
		return at.DieID(), at.Socket*span + at.Die
	case AggregateSocket:
		return at.SocketID(), at.Socket
	default:
		return at.NodeID(), at.Node
	}
}

// snapshot returns the rows with what the cells counted since an earlier reading. With a nil reading, it returns everything that they
// counted.
func (l *layout) snapshot(cells, since []count.Cell) []Row {
	rows := slices.Clone(l.rows)
	var readings []perfevent.Reading
	for i := range rows {
		readings = readings[:0]
		var runs *count.Runs
		var dropped *count.Dropped
		for _, c := range l.cells[i] {
			r := cells[c].Reading
			if since != nil {
				r = r.Sub(since[c].Reading)
			}
			if l.counts[c].Snapshot {
				r.Value = cells[c].Value
			}
			readings = append(readings, r)
			runs = addRuns(runs, cells[c].Runs)
			dropped = addDropped(dropped, cells[c].Dropped)
		}
		for _, c := range l.cells[i] {
			if since != nil && runs != nil {
				runs.Sub(since[c].Runs)
			}
			if since != nil && dropped != nil {
				dropped.Sub(since[c].Dropped)
			}
		}
		rows[i].Runs, rows[i].Dropped = runs, dropped
		rows[i].Total = count.Sum(readings, l.raw)
		if runs != nil && runs.Counted > 0 {
			rows[i].PerRun = rows[i].Value / float64(runs.Counted)
		}
	}
	return rows
}

// addDropped returns the sum of two counts of dropped runs; both may be nil.
func addDropped(sum, dropped *count.Dropped) *count.Dropped {
	if dropped == nil {
		return sum
	}
	if sum == nil {
		sum = new(count.Dropped)
	}
	sum.Add(dropped)
	return sum
}

// addRuns returns the sum of two counts of runs; both may be nil.
func addRuns(sum, runs *count.Runs) *count.Runs {
	if runs == nil {
		return sum
	}
	if sum == nil {
		sum = new(count.Runs)
	}
	sum.Add(runs)
	return sum
}
