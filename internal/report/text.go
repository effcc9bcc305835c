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
		hasKeys := slices.ContainsFunc(table.columns, func(c *column) bool { return c.key != nil })
		switch {
		case t.o.Blocks:
			t.printBlocks(table)
		case t.o.Hierarchy && hasKeys:
			t.printHierarchy(newHierarchy(table))
		default:
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
		if t.o.Branches {
			sums.samples = t.p.Events[event].Stacks
		}
		samples += sums.samples
		value += sums.value
		names = append(names, printable.Text(t.p.Events[event].Name))
	}
	name, plural, parts := names[0], "", ""
	if len(names) > 1 {
		name, plural = "anon group { "+strings.Join(names, ", ")+" }", "s"
	}
	if t.o.Slices != "" {
		parts = " (time slices: " + printable.Text(t.o.Slices) + ")"
	}
	fmt.Fprintf(t.w, "# Samples: %s of event%s '%s'%s\n", shortened(samples), plural, name, parts)
	if !t.o.Memory {
		fmt.Fprintf(t.w, "# Event count (approx.): %d\n#\n", value)
		return
	}
	fmt.Fprintf(t.w, "# Total weight : %d\n", value)
	if len(t.o.Fields) == 0 {
		fmt.Fprintf(t.w, "# Sort order   : %s\n", printable.Text(strings.Join(t.o.sortKeys(), ",")))
	}
	t.w.WriteString("#\n")
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

func (t *table) textWidth(c *column, r *row) int {
	if c.key.room != nil && !(c.name == "dso" && len(t.o.DSOs) > 0) {
		return c.key.room(t.p, &r.properties)
	}
	return utf8.RuneCountInString(c.key.text(t.p, &r.properties, 0))
}

// symbolRoom returns the width that perf reserves for a symbol.
func symbolRoom(p *profile.Profile, f *profile.Frame) int {
	if f.Function == 0 {
		return unresolvedWidth + len("[.] 0x")
	}
	width := utf8.RuneCountInString(symbolText(p, f))
	if f.Inlined {
		width -= len(" (inlined)")
	}
	return width
}

// dsoRoom returns the width that perf reserves for the name of a file.
func dsoRoom(f *profile.Frame, name string) int {
	width := utf8.RuneCountInString(name)
	if f.Function == 0 {
		return max(width, unresolvedWidth)
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
		case c.key == nil || c.key.right:
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

// padded reports whether spaces fill the column with index i.
func (t *table) padded(i int) bool {
	return i < len(t.columns)-1 || t.columns[i].key != nil && t.columns[i].key.fills
}

// cell returns the text of a row in a column.
func (t *table) cell(c *column, r *row, width int) string {
	if c.key != nil {
		if c.key.right && t.o.Separator != "" {
			width = 0
		}
		text := printable.Text(c.key.text(t.p, &r.properties, width))
		if t.o.Separator != "" {
			text = strings.ReplaceAll(text, t.o.Separator, ".")
		}
		return text
	}
	var b strings.Builder
	for i := range t.events {
		each := c.width
		if len(t.events) == 1 {
			each = width
		}
		if t.o.Separator != "" {
			each = 2
		}
		if c.share {
			fmt.Fprintf(&b, " %*s%%", each-2, c.valueText(t, r, i))
		} else {
			fmt.Fprintf(&b, " %*s", each-1, c.valueText(t, r, i))
		}
	}
	return b.String()
}
