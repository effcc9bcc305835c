package report

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/profile"
)

// DefaultDiffSort returns the keys that WriteDiff uses if Options.Sort is empty.
func DefaultDiffSort() []string { return []string{"dso", "symbol"} }

// Diff says how WriteDiff compares profiles.
type Diff struct {
	Compute Compute
	Weights [2]int64 // for Weighted: of the baseline, and of the others

	Order        int  // the index of the profile whose comparison orders the rows; 0 orders them by the share in the baseline
	BaselineOnly bool // leave out rows that the baseline lacks
	Periods      bool // show sums of periods
	Formulas     bool // show how each comparison is computed
}

// DefaultDiff compares shares, and puts the largest changes first.
func DefaultDiff() Diff { return Diff{Compute: AbsoluteDelta, Order: 1} }

// Compute is what a comparison of two profiles shows. The largest values come first.
type Compute string

// Comparisons of a row with the same row of the baseline.
const (
	AbsoluteDelta Compute = "delta-abs" // the change of the share in percent, ordered by its size without the sign
	Delta         Compute = "delta"     // the change of the share in percent
	Ratio         Compute = "ratio"     // the period divided by that of the baseline
	Weighted      Compute = "wdiff"     // the weighted difference of the periods
)

// SetCompute sets Compute and Weights from perf's texts, such as ratio and wdiff:1,2.
func (d *Diff) SetCompute(text string) error {
	name, weights, weighted := strings.Cut(text, ":")
	switch d.Compute = Compute(name); {
	case weighted != (d.Compute == Weighted):
	case weighted:
		first, second, _ := strings.Cut(weights, ",")
		var err1, err2 error
		d.Weights[0], err1 = strconv.ParseInt(first, 10, 32)
		d.Weights[1], err2 = strconv.ParseInt(second, 10, 32)
		if err1 == nil && err2 == nil {
			return nil
		}
	case slices.Contains([]Compute{AbsoluteDelta, Delta, Ratio}, d.Compute):
		return nil
	}
	return fmt.Errorf("%q is no comparison: there are delta, delta-abs, ratio and wdiff:WEIGHT,WEIGHT, such as wdiff:1,2", text)
}

// WriteDiff writes perf's table of two or more profiles. For each event of the first, the baseline, it compares each row of the others with
// the same row of the baseline. Rows that cannot be compared come last. The names are those of the profiles. Profiles without a common event
// are an error.
func WriteDiff(w io.Writer, profiles []*profile.Profile, names []string, o *Options, d Diff) error {
	all, err := compareEvents(profiles, o, d)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	for i := range all {
		if i > 0 {
			out.WriteString("\n")
		}
		if !o.NoHeads {
			fmt.Fprintf(out, "# Event '%s'\n#\n", printable.Text(all[i].event))
			all[i].writeNames(out, names)
		}
		all[i].write(out)
	}
	return out.Flush()
}

// compareEvents returns a comparison for each event of the first profile that another has, too. It returns an error if there is none.
func compareEvents(profiles []*profile.Profile, o *Options, d Diff) ([]comparison, error) {
	options := *o
	options.Children, options.CallGraph = false, CallGraph{}
	if len(options.Sort) == 0 {
		options.Sort = DefaultDiffSort()
	}
	var all []comparison
	for event, e := range profiles[0].Events {
		if o.Event != "" && e.Name != o.Event {
			continue
		}
		tables := make([]*table, len(profiles))
		found := 0
		for i, p := range profiles {
			of := event
			if i > 0 {
				of = sameEvent(p, e)
			}
			if of < 0 {
				continue
			}
			found++
			var err error
			if tables[i], err = newTable(p, &options, []int{of}); err != nil {
				return nil, err
			}
		}
		if found > 1 {
			all = append(all, comparison{Diff: d, o: &options, event: e.Name, tables: tables})
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("the profiles have no event in common: %s", eventNames(profiles))
	}
	return all, nil
}

func eventNames(profiles []*profile.Profile) string {
	var lists []string
	for _, p := range profiles {
		var names []string
		for _, e := range p.Events {
			names = append(names, e.Name)
		}
		lists = append(lists, strings.Join(names, ", "))
	}
	return strings.Join(lists, "; ")
}

// comparison compares the tables of one event. A table is nil if its profile lacks the event, which the first never does.
type comparison struct {
	Diff
	o      *Options
	event  string
	tables []*table
}

// difference is a row: the sums of periods of the same keys in each table. A sum is 0 if the table lacks the row.
type difference struct {
	keys    []string
	periods []uint64
}

func (c *comparison) share(d *difference, i int) float64 {
	if c.tables[i] == nil {
		return 0
	}
	return percent(d.periods[i], c.tables[i].base(0))
}

// value compares the row in table i with that of the baseline. It returns false if it cannot: a change needs the row in table i, the others
// need it in both.
func (c *comparison) value(d *difference, i int) (value float64, ok bool) {
	base, now := float64(d.periods[0]), float64(d.periods[i])
	if now == 0 || base == 0 && (c.Compute == Ratio || c.Compute == Weighted) {
		return 0, false
	}
	switch c.Compute {
	case Ratio:
		return now / base, true
	case Weighted:
		return now*float64(c.Weights[1]) - base*float64(c.Weights[0]), true
	}
	return c.share(d, i) - c.share(d, 0), true
}

// rows pairs the rows of the tables by their keys, and orders them.
func (c *comparison) rows() []*difference {
	byKeys := map[string]*difference{}
	for i, t := range c.tables {
		if t == nil {
			continue
		}
		for _, r := range t.rows {
			r.samples = 1 // the same row has other numbers of samples elsewhere
			var keys []string
			for _, column := range t.columns {
				if column.key != nil {
					keys = append(keys, column.key.text(t.p, &r.properties, 0))
				}
			}
			joined := strings.Join(keys, "\x00")
			if byKeys[joined] == nil {
				byKeys[joined] = &difference{keys: keys, periods: make([]uint64, len(c.tables))}
			}
			byKeys[joined].periods[i] += r.values[0].self
		}
	}
	all := slices.Collect(maps.Values(byKeys))
	all = slices.DeleteFunc(all, func(d *difference) bool {
		largest := 0.0
		for i := range c.tables {
			largest = max(largest, c.share(d, i))
		}
		return largest < c.o.Limit || c.BaselineOnly && d.periods[0] == 0
	})
	slices.SortFunc(all, func(a, b *difference) int {
		return cmp.Or(cmp.Compare(c.rank(b), c.rank(a)), cmp.Compare(b.periods[0], a.periods[0]), slices.Compare(a.keys, b.keys))
	})
	return all
}

// rank is the value that orders the row, the largest first.
func (c *comparison) rank(d *difference) float64 {
	if c.Order == 0 {
		return c.share(d, 0)
	}
	value, ok := c.value(d, c.Order)
	switch {
	case !ok:
		return math.Inf(-1)
	case c.Compute == AbsoluteDelta:
		return math.Abs(value)
	}
	return value
}

// diffColumn is a column: its title, its least width, and the text for a row.
type diffColumn struct {
	title string
	width int
	text  func(d *difference) string
}

// numberWidth is the least width of columns of periods, ratios and weighted differences.
const numberWidth = 14

// columns returns the columns before those of the keys: of the baseline, and of each other table. More than two tables are numbered.
func (c *comparison) columns() []diffColumn {
	title, width := "Delta Abs", 0
	switch c.Compute {
	case Delta:
		title, width = "Delta", len("+10.00%")
	case Ratio:
		title, width = "Ratio", numberWidth
	case Weighted:
		title, width = "Weighted diff", numberWidth
	}
	var columns []diffColumn
	add := func(i int, title string, width int, text func(d *difference) string) {
		if len(c.tables) > 2 {
			title += fmt.Sprintf("/%d", i)
		}
		columns = append(columns, diffColumn{title, max(width, len(title)), text})
	}
	add(0, "Baseline", 0, func(d *difference) string {
		switch {
		case d.periods[0] == 0:
			return ""
		case c.o.Separator != "":
			return fmt.Sprintf("%.2f", c.share(d, 0))
		}
		return fmt.Sprintf("%.2f%%", c.share(d, 0))
	})
	if c.Periods {
		add(0, "Base period", numberWidth, func(d *difference) string { return strconv.FormatUint(d.periods[0], 10) })
	}
	for i := 1; i < len(c.tables); i++ {
		add(i, title, width, func(d *difference) string { return c.text(d, i) })
		if c.Formulas {
			add(i, "Formula", 0, func(d *difference) string { return c.formula(d, i) })
		}
		if c.Periods {
			add(i, "Period", numberWidth, func(d *difference) string {
				if d.periods[i] == 0 {
					return ""
				}
				return strconv.FormatUint(d.periods[i], 10)
			})
		}
	}
	return columns
}

func (c *comparison) text(d *difference, i int) string {
	value, ok := c.value(d, i)
	switch {
	case !ok:
		return ""
	case c.Compute == Ratio:
		return fmt.Sprintf("%.6f", value)
	case c.Compute == Weighted:
		return fmt.Sprintf("%.0f", value)
	}
	return fmt.Sprintf("%+.2f%%", value)
}

func (c *comparison) formula(d *difference, i int) string {
	base, now := d.periods[0], d.periods[i]
	_, ok := c.value(d, i)
	switch {
	case !ok:
		return ""
	case c.Compute == Ratio:
		return fmt.Sprintf("%d / %d", now, base)
	case c.Compute == Weighted:
		return fmt.Sprintf("(%d * %d) - (%d * %d)", now, c.Weights[1], base, c.Weights[0])
	}
	return fmt.Sprintf("(%d * 100 / %d) - (%d * 100 / %d)", now, c.tables[i].base(0), base, c.tables[0].base(0))
}

// writeNames writes the names of more than two profiles.
func (c *comparison) writeNames(out *bufio.Writer, names []string) {
	if len(names) <= 2 {
		return
	}
	out.WriteString("# Data files:\n")
	for i, name := range names {
		note := ""
		if i == 0 {
			note = " (Baseline)"
		}
		fmt.Fprintf(out, "#  [%d] %s%s\n", i, printable.Text(name), note)
	}
	out.WriteString("#\n")
}

func (c *comparison) write(out *bufio.Writer) {
	columns, rows := c.columns(), c.rows()
	compared := len(columns)
	for _, key := range c.tables[0].columns {
		if key.key != nil {
			at := len(columns) - compared
			columns = append(columns, diffColumn{key.title, len(key.title), func(d *difference) string { return printable.Text(d.keys[at]) }})
		}
	}
	for _, d := range rows {
		for i := range columns {
			columns[i].width = max(columns[i].width, utf8.RuneCountInString(columns[i].text(d)))
		}
	}
	line := func(start string, text func(column *diffColumn) string, keep bool) {
		out.WriteString(start)
		for i := range columns {
			cell := text(&columns[i])
			missing := strings.Repeat(" ", max(0, columns[i].width-utf8.RuneCountInString(cell)))
			switch {
			case c.o.Separator != "":
				cell = strings.ReplaceAll(cell, c.o.Separator, ".")
			case i < compared:
				cell = missing + cell
			case keep || i < len(columns)-1:
				cell += missing
			}
			if i > 0 {
				out.WriteString(cmp.Or(c.o.Separator, "  "))
			}
			out.WriteString(cell)
		}
		out.WriteString("\n")
	}
	if !c.o.NoHeads {
		line("# ", func(column *diffColumn) string { return column.title }, true)
		if c.o.Separator == "" {
			line("# ", func(column *diffColumn) string { return strings.Repeat(".", column.width) }, true)
			out.WriteString("#\n")
		}
	}
	start := "  "
	if c.o.Separator != "" {
		start = ""
	}
	for _, d := range rows {
		line(start, func(column *diffColumn) string { return column.text(d) }, false)
	}
}
