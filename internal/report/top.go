package report

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/clipperhouse/displaywidth"

	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/profile"
)

// barWidth is the width of a bar of 100 percent, in characters.
const barWidth = 20

// WriteTop writes a table for each event, with the rows of the largest shares and a bar for each. most is the maximum
// number of rows. Keys are cut so that lines fit into width, in columns of a terminal; 0 is no limit.
func WriteTop(w io.Writer, p *profile.Profile, o *Options, most, width int) error {
	b := bufio.NewWriter(w)
	tables := 0
	for event := range p.Events {
		if p.Events[event].Samples == 0 && len(p.Events) > 1 {
			continue
		}
		flat := *o
		flat.CallGraph.Mode = NoGraph
		t, err := newTable(p, &flat, []int{event})
		if err != nil {
			return err
		}
		if tables > 0 {
			b.WriteByte('\n')
		}
		tables++
		t.writeTop(b, most, width)
	}
	return b.Flush()
}

func (t *table) writeTop(w *bufio.Writer, most, width int) {
	event, sums := t.p.Events[t.events[0]], t.totals[0]
	column, what := "Samples", "samples"
	if event.Entries {
		column, what = "Value", "entries"
	}
	fmt.Fprintf(w, "%s: %d %s, %s\n", printable.Text(event.Name), sums.samples, what, amount(sums.value, event.Unit))
	rows := slices.DeleteFunc(slices.Clone(t.rows), func(r *row) bool { return !t.shown(r) || r.values[0].samples == 0 })
	shown := rows[:min(len(rows), most)]
	if len(shown) == 0 {
		return
	}
	for i, keys := range fitted(t.topKeys(shown), width-topValues) {
		head := fmt.Sprintf("%7s  %-*s %10s", "Share", barWidth, "", column)
		if i > 0 {
			v := shown[i-1].values[0]
			n := v.samples
			if event.Entries {
				n = v.self
			}
			head = fmt.Sprintf("%6.2f%%  %-*s %10d", percent(v.self, t.base(0)), barWidth, bar(v.self, t.base(0)), n)
		}
		w.WriteString(strings.TrimRight(head+keys, " ") + "\n")
	}
	if rest := len(rows) - len(shown); rest > 0 {
		left := uint64(0)
		for _, r := range rows[len(shown):] {
			left += r.values[0].self
		}
		fmt.Fprintf(w, "%6.2f%%  in %d more\n", percent(left, t.base(0)), rest)
	}
}

// topValues is the width of the columns before those of the keys.
const topValues = len("100.00%") + 2 + barWidth + 1 + len("1234567890")

// topKeys returns the titles of the sort keys, then the values in each row.
func (t *table) topKeys(rows []*row) [][]string {
	cells := make([][]string, 1+len(rows))
	for _, c := range t.columns {
		if c.key == nil {
			continue
		}
		cells[0] = append(cells[0], c.title)
		for i, r := range rows {
			cells[1+i] = append(cells[1+i], printable.Text(c.key.text(t.p, &r.properties, 0)))
		}
	}
	return cells
}

// leastColumn is the width to which a column of keys may be cut.
const leastColumn = 12

// fitted returns the lines of a table, each with two blanks before each cell. Those of the widest columns are cut in their middle if the lines
// do not fit into the room. A room that is not positive has no limit.
func fitted(cells [][]string, room int) []string {
	widths := make([]int, len(cells[0]))
	for _, line := range cells {
		for i, cell := range line {
			widths[i] = max(widths[i], displaywidth.String(cell))
		}
	}
	limited := room > 0
	for _, width := range widths {
		room -= 2 + width
	}
	for ; limited && room < 0 && slices.Max(widths) > leastColumn; room++ {
		widths[slices.Index(widths, slices.Max(widths))]--
	}
	lines := make([]string, len(cells))
	for at, line := range cells {
		for i, cell := range line {
			cell = printable.Middle(cell, widths[i])
			lines[at] += "  " + cell + strings.Repeat(" ", widths[i]-displaywidth.String(cell))
		}
	}
	return lines
}

// amount formats a value with its unit; times are in seconds.
func amount(v uint64, unit string) string {
	switch unit {
	case "ns":
		return fmt.Sprintf("%.3f s", float64(v)/1e9)
	case "", "count":
		return fmt.Sprint(v, " events")
	}
	return fmt.Sprint(v, " ", printable.Text(unit))
}

// bar returns a bar for a share of the whole, to an eighth of a character.
func bar(part, whole uint64) string {
	eighths := 0
	if whole > 0 {
		eighths = int(math.Round(8 * barWidth * min(1, float64(part)/float64(whole))))
	}
	b := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		b += string(rune('█' + 8 - rest))
	}
	return b
}
