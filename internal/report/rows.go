package report

import (
	"cmp"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/bperf/bperf/internal/profile"
)

// value holds the sums of one event in a row.
type value struct {
	samples uint64 // number of samples in the row's own code
	self    uint64
	total   uint64 // self and the values of the callees
	user    uint64 // the parts of self by kind of code
	kernel  uint64
	guest   uint64 // user code of guests
	guestOS uint64
	weights [3]uint64 // sums of the samples' weights and latencies
}

// row is a line of a table: the samples with equal keys.
type row struct {
	properties
	values []value // one for each event of the table
	calls  []*branch

	first  int64 // time of the first sample
	thread int32 // thread of the first sample
	last   int64 // time of the sample that the labels are of
	depth  int   // of its deepest call tree
}

// table holds the rows of one event, or of several side by side.
type table struct {
	p       *profile.Profile
	o       *Options
	columns []*column
	events  []int // indexes in Profile.Events; call trees are those of the first event
	totals  []total
	rows    []*row
}

// total holds the sums of an event over all rows.
type total struct {
	samples, value   uint64
	stacked          uint64 // value of samples with a stack
	leftSamples      uint64 // samples that pass the filters
	leftValue        uint64
	leftStackedValue uint64
}

// newTable builds the table of the events with the given indexes in Profile.Events.
func newTable(p *profile.Profile, o *Options, events []int) (*table, error) {
	columns, err := o.columns()
	if err != nil {
		return nil, err
	}
	columns = slices.DeleteFunc(columns, func(c *column) bool {
		return c.key != nil && c.key.event != "" && c.key.event != p.Events[events[0]].Name
	})
	return tableOf(p, o, columns, events), nil
}

// tableOf builds the table with these columns.
func tableOf(p *profile.Profile, o *Options, columns []*column, events []int) *table {
	t := &table{p: p, o: o, columns: columns, events: events, totals: make([]total, len(events))}
	c := newClasses(t)
	wanted := o.Filter.of(p)
	var chosen chosenSamples
	for position, event := range events {
		sums := &t.totals[position]
		samples := p.Samples()
		for i := range samples {
			s := &samples[i]
			if int(s.Event) != event || o.hidden(p, s) {
				continue
			}
			sums.add(s)
			if wanted(s) {
				sums.leave(s)
				chosen.add(c.ofSample(i), position, len(events), i)
			}
		}
	}
	t.gather(chosen)
	t.sort()
	return t
}

func (t *total) add(s *profile.Sample) {
	t.samples += s.Count
	t.value += s.Value
	if s.Stack != 0 {
		t.stacked += s.Value
	}
}

func (t *total) leave(s *profile.Sample) {
	t.leftSamples += s.Count
	t.leftValue += s.Value
	if s.Stack != 0 {
		t.leftStackedValue += s.Value
	}
}

// base returns the value that is 100 percent of an event. position is the event's index in table.events.
func (t *table) base(position int) uint64 {
	if t.o.Relative {
		return t.totals[position].leftValue
	}
	return t.totals[position].value
}

func percent(part, whole uint64) float64 {
	if whole == 0 {
		return 0
	}
	return 100 * float64(part) / float64(whole)
}

// shown reports whether a row reaches Options.Limit.
func (t *table) shown(r *row) bool { return percent(t.whole(r, 0), t.base(0)) >= t.o.Limit }

// whole returns the value of a row that limits and call trees relate to. position is the event's index in table.events.
func (t *table) whole(r *row, position int) uint64 {
	if t.o.Children {
		return r.values[position].total
	}
	return r.values[position].self
}

// Row is the sum of the samples of a function.
type Row struct {
	Name, Module string // as tables show them; an address if no function is known
	Function     profile.FunctionID
	In           profile.ModuleID
	Inlined      bool
	Samples      uint64 // in the function's own code
	Self, Total  uint64 // values: Total includes callees
}

// Functions returns a row for each function, as a table with children sorted by dso and symbol has them, and the value of 100 percent. The
// function with the largest Self comes first. event is an index in Profile.Events.
func Functions(p *profile.Profile, o *Options, event int) (rows []Row, all uint64, err error) {
	byFunction := Options{Filter: o.Filter, Children: true, CallGraph: CallGraph{Mode: NoGraph}, Sort: []string{"dso", "symbol"}, FullPaths: o.FullPaths,
		Relative: o.Relative}
	t, err := newTable(p, &byFunction, []int{event})
	if err != nil {
		return nil, 0, err
	}
	for _, r := range t.rows {
		f, v := r.frame, &r.values[0]
		row := Row{Name: p.Strings.At(p.Functions.At(f.Function).Name), Module: moduleName(p, f), Function: f.Function, In: f.Module,
			Inlined: f.Inlined, Samples: v.samples, Self: v.self, Total: v.total}
		if f.Function == 0 {
			row.Name = address(f.Address)
		}
		rows = append(rows, row)
	}
	slices.SortStableFunc(rows, func(a, b Row) int { return cmp.Or(cmp.Compare(b.Self, a.Self), cmp.Compare(b.Total, a.Total)) })
	return rows, t.base(0), nil
}

// Quantity formats a value with its unit.
func Quantity(n uint64, unit string) string { return quantity(n, unit) }

// rowMap maps the classes of samples and frames to rows.
type rowMap map[rowKey]*row

type rowKey struct{ sample, frame uint32 }

// chosenSamples are indexes in Profile.Samples, by the class of the samples and by the position of their event in table.events.
type chosenSamples [][][]int

func (c *chosenSamples) add(class uint32, position, events, sample int) {
	for int(class) >= len(*c) {
		*c = append(*c, make([][]int, events))
	}
	of := (*c)[class]
	of[position] = append(of[position], sample)
}

// gather builds the rows. Classes have no row in common, so that several goroutines work on one each. There is only one goroutine if each
// would need memory for all stacks.
func (t *table) gather(chosen chosenSamples) {
	order := make([]int, len(chosen)) // the largest first, so that all goroutines end at the same time
	sizes := make([]int, len(chosen))
	for class, byEvent := range chosen {
		order[class] = class
		for _, samples := range byEvent {
			sizes[class] += len(samples)
		}
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(sizes[b], sizes[a]) })
	workers := runtime.GOMAXPROCS(0)
	if t.needsNodes() {
		workers = 1
	}
	parts := make([]rowMap, min(workers, len(order)))
	var next atomic.Int64
	var working sync.WaitGroup
	for part := range parts {
		working.Go(func() {
			g := newGatherer(t)
			parts[part] = g.rows
			for i := next.Add(1) - 1; i < int64(len(order)); i = next.Add(1) - 1 {
				for position, samples := range chosen[order[i]] {
					if len(samples) > 0 {
						g.gather(uint32(order[i]), position, samples)
					}
				}
			}
		})
	}
	working.Wait()
	for _, rows := range parts {
		t.rows = slices.AppendSeq(t.rows, maps.Values(rows))
	}
}
