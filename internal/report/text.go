package report

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/profile"
)

// Text writes perf's tables: one for each event, or one for each group of events.
func Text(w io.Writer, p *profile.Profile, o *Options) error {
	buffered := bufio.NewWriter(w)
	printer := textPrinter{w: buffered, p: p, o: o}
	if err := printer.print(); err != nil {
		return err
	}
	return buffered.Flush()
}

type textPrinter struct {
	w *bufio.Writer
	p *profile.Profile
	o *Options
}

func (t *textPrinter) print() error {
	if !t.o.NoHeads {
		t.printIntroduction()
	}
	for _, events := range groupEvents(t.p.Events, t.o.Group) {
		table, err := newTable(t.p, t.o, events)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(table.totals, func(sums total) bool { return sums.samples > 0 }) {
			continue
		}
		if t.o.Hierarchy {
			t.printHierarchy(newHierarchy(table))
		} else {
			t.printTable(table)
		}
	}
	return nil
}

// printIntroduction prints the keys that are equal in all rows, and what is missing.
func (t *textPrinter) printIntroduction() {
	t.w.WriteString("#\n")
	elided := t.o.elided()
	for _, name := range slices.Sorted(maps.Keys(elided)) {
		fmt.Fprintf(t.w, "# %s: %s\n", name, printable.Text(elided[name]))
	}
	fmt.Fprintf(t.w, "#\n# Total Lost Samples: %d\n", t.p.Losses.Samples)
	t.printLosses()
	t.w.WriteString("#\n")
}

// printLosses prints the losses that perf does not report.
func (t *textPrinter) printLosses() {
	lost := &t.p.Losses
	if lost.MissedEstimate > 0 {
		fmt.Fprintf(t.w, "# Missed samples (estimate): about %d were due but not taken\n", lost.MissedEstimate)
	}
	if lost.Truncated > 0 {
		fmt.Fprintf(t.w, "# Truncated stacks: %d\n", lost.Truncated)
	}
	for _, l := range lost.Reasons {
		fmt.Fprintf(t.w, "# Missing samples: %d (%s)\n", l.Samples, printable.Text(l.Reason))
	}
}

// groupEvents returns the events of each table by their index: a group's leader and its members. With all, one table has all events.
func groupEvents(events []profile.Event, all bool) [][]int {
	var groups [][]int
	at := map[int]int{}
	for i, e := range events {
		leader := e.Leader
		if all {
			leader = 0
		}
		group, known := at[leader]
		if !known {
			group = len(groups)
			groups = append(groups, nil)
			at[leader] = group
		}
		groups[group] = append(groups[group], i)
	}
	return groups
}

func (t *textPrinter) printTable(table *table) {
	widths := table.widths()
	if !t.o.NoHeads {
		t.printSums(table)
		t.printHeads(table, widths)
	}
	for _, r := range table.rows {
		if table.shown(r) {
			t.printRow(table, widths, r)
			t.printCalls(table, r)
		}
	}
	t.w.WriteString("\n\n")
}

func (t *textPrinter) printSums(table *table) {
	var samples, value uint64
	var names []string
	for i, event := range table.events {
		sums := table.totals[i]
		if t.o.Relative {
			sums.samples, sums.value = sums.leftSamples, sums.leftValue
		}
		samples += sums.samples
		value += sums.value
		names = append(names, printable.Text(t.p.Events[event].Name))
	}
	name, plural := names[0], ""
	if len(names) > 1 {
		name, plural = "anon group { "+strings.Join(names, ", ")+" }", "s"
	}
	fmt.Fprintf(t.w, "# Samples: %s of event%s '%s'\n# Event count (approx.): %d\n#\n", shortened(samples), plural, name, value)
}

// shortened formats a number of samples as perf does.
func shortened(n uint64) string {
	unit := " "
	for _, larger := range []string{"K", "M", "G"} {
		if n <= 1000 {
			break
		}
		n, unit = n/1000, larger
	}
	return strconv.FormatUint(n, 10) + unit
}

// widths returns the widths of the columns.
func (t *table) widths() []int {
	widths := make([]int, len(t.columns))
	for i, c := range t.columns {
		widths[i] = len(c.title)
		if c.key == nil {
			widths[i] = max(widths[i], c.width*len(t.events), t.o.width(i))
			continue
		}
		if forced := t.o.width(i); forced > 0 {
			widths[i] = forced
			continue
		}
		widths[i] = max(widths[i], c.key.width)
		for _, r := range t.rows {
			widths[i] = max(widths[i], t.textWidth(c, r))
		}
	}
	return widths
}

// width returns the width that the options give to the column with index i, or 0. As in perf, it is 0 in a hierarchy.
func (o *Options) width(i int) int {
	if i < len(o.Widths) && !o.Hierarchy {
		return o.Widths[i]
	}
	return 0
}

// fit cuts the text of the column with index i if the options give the column a width. It never cuts values.
func (t *table) fit(text string, i int) string {
	if width := t.o.width(i); width > 0 && t.columns[i].key != nil && utf8.RuneCountInString(text) > width {
		return string([]rune(text)[:width])
	}
	return text
}

// unresolvedWidth is the width of an address. perf reserves it in two columns: symbol and dso.
const unresolvedWidth = 16

// nanosecondsWidth is the least width of a time with nine decimals, as in perf.
const nanosecondsWidth = 16

func (t *table) textWidth(c *column, r *row) int {
	text := c.key.text(t.p, &r.properties, 0)
	width := utf8.RuneCountInString(text)
	switch c.name {
	case "symbol":
		if r.frame.Function == 0 {
			return unresolvedWidth + len("[.] 0x")
		}
		if r.frame.Inlined {
			return width - len(" (inlined)")
		}
	case "time":
		if t.o.Nanoseconds {
			return max(width, nanosecondsWidth)
		}
	case "dso":
		if r.frame.Function == 0 && len(t.o.DSOs) == 0 {
			return max(width, unresolvedWidth)
		}
	}
	return width
}

func (t *textPrinter) printHeads(table *table, widths []int) {
	t.w.WriteString("# ")
	for i, c := range table.columns {
		if i > 0 {
			t.w.WriteString(t.separator())
		}
		title := table.fit(c.title, i)
		switch {
		case t.o.Separator != "":
			t.w.WriteString(title)
		case c.key == nil:
			fmt.Fprintf(t.w, "%*s", widths[i], title)
		default:
			fmt.Fprintf(t.w, "%-*s", widths[i], title)
		}
	}
	t.w.WriteString("\n")
	if t.o.Separator != "" {
		return
	}
	t.w.WriteString("# ")
	for i, width := range widths {
		if i > 0 {
			t.w.WriteString("  ")
		}
		t.w.WriteString(strings.Repeat(".", width))
	}
	t.w.WriteString("\n#\n")
}

func (t *textPrinter) separator() string {
	if t.o.Separator != "" {
		return t.o.Separator
	}
	return "  "
}

func (t *textPrinter) printRow(table *table, widths []int, r *row) {
	for i, c := range table.columns {
		if i > 0 || t.o.Separator == "" {
			t.w.WriteString(t.separator())
		}
		text := table.fit(table.cell(c, r, widths[i]), i)
		t.w.WriteString(text)
		if missing := widths[i] - utf8.RuneCountInString(text); missing > 0 && t.o.Separator == "" && table.padded(i) {
			t.w.WriteString(strings.Repeat(" ", missing))
		}
	}
	t.w.WriteString("\n")
}

// padded reports whether spaces fill the column with index i. perf does not pad symbols at the end of a line.
func (t *table) padded(i int) bool { return i < len(t.columns)-1 || t.columns[i].padsLines() }

// padsLines reports whether perf pads the column also at the end of a line.
func (c *column) padsLines() bool {
	switch c.name {
	case "comm", "dso", "pid", "tid", "cgroup", "parent":
		return true
	}
	return false
}

// cell returns the text of a row in a column.
func (t *table) cell(c *column, r *row, width int) string {
	if c.key != nil {
		text := printable.Text(c.key.text(t.p, &r.properties, width))
		if t.o.Separator != "" {
			text = strings.ReplaceAll(text, t.o.Separator, ".")
		}
		return text
	}
	var b strings.Builder
	for i := range t.events {
		v := c.of(&r.values[i])
		each := c.width
		if len(t.events) == 1 {
			each = width
		}
		if t.o.Separator != "" {
			each = 2
		}
		if c.share {
			fmt.Fprintf(&b, " %*.2f%%", each-2, percent(v, t.base(i)))
		} else {
			fmt.Fprintf(&b, " %*d", each-1, v)
		}
	}
	return b.String()
}
