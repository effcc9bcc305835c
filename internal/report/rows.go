package report

import (
	"maps"
	"slices"

	"github.com/bperf/bperf/internal/profile"
)

// value is what a row has of one event.
type value struct {
	samples uint64 // in the row's own code
	self    uint64
	total   uint64 // with that of what it called
	user    uint64 // of self, by kind of code
	kernel  uint64
	guest   uint64 // user code of guests
	guestOS uint64
}

// row is a line of a table: the samples that have the same keys.
type row struct {
	place
	values []value // of each event of the table
	calls  []*branch

	first  int64 // the time of the first sample
	thread int32 // that one's
	depth  int   // of its deepest call tree
}

// table is the rows of an event, or of several side by side.
type table struct {
	p       *profile.Profile
	o       *Options
	columns []*column
	events  []int // positions in Profile.Events; the first is the one whose call trees are shown
	totals  []total
	rows    []*row
}

// total is all there is of an event.
type total struct {
	samples, value   uint64
	stacked          uint64 // the value of samples with a stack
	leftSamples      uint64 // what the filters leave
	leftValue        uint64
	leftStackedValue uint64
}

// newTable makes the rows of events.
func newTable(p *profile.Profile, o *Options, events []int) (*table, error) {
	columns, err := o.columns()
	if err != nil {
		return nil, err
	}
	t := &table{p: p, o: o, columns: columns, events: events, totals: make([]total, len(events))}
	c := newClasses(t)
	wanted := o.filter(p)
	rows := rowMap{}
	for position, event := range events {
		var chosen []int
		sums := &t.totals[position]
		for i, s := range p.Samples() {
			if int(s.Event) != event {
				continue
			}
			sums.add(&s)
			if wanted(&s) {
				sums.leave(&s)
				chosen = append(chosen, i)
			}
		}
		t.addSamples(rows, c, position, chosen)
	}
	t.rows = slices.Collect(maps.Values(rows))
	t.sort()
	return t, nil
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

// base returns what is 100 percent of an event.
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

// shown tells whether a row is above the limit.
func (t *table) shown(r *row) bool { return t.percentOf(r) >= t.o.Limit }

// percentOf is what the limit for rows is compared with.
func (t *table) percentOf(r *row) float64 {
	if t.o.Children {
		return percent(r.values[0].total, t.base(0))
	}
	return percent(r.values[0].self, t.base(0))
}

// rowMap has the rows by the classes of their samples and frames.
type rowMap map[rowKey]*row

type rowKey struct{ sample, frame uint32 }

// addSamples adds the samples of an event, by their positions in the profile.
func (t *table) addSamples(rows rowMap, c *classes, position int, chosen []int) {
	g := newGatherer(t, rows, c, position)
	bySample := map[uint32][]int{}
	for _, i := range chosen {
		class := c.ofSample(i)
		bySample[class] = append(bySample[class], i)
	}
	for class, positions := range bySample {
		g.gather(class, positions)
	}
}
