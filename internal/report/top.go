package report

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/profile"
)

// barWidth is the width of a bar of 100 percent, in characters.
const barWidth = 20

// WriteTop writes a table for each event, with the rows of the largest shares and a bar for each. most is the maximum number of rows.
func WriteTop(w io.Writer, p *profile.Profile, o *Options, most int) error {
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
		t.writeTop(b, most)
	}
	return b.Flush()
}

func (t *table) writeTop(w *bufio.Writer, most int) {
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
	cells := [][]string{{}}
	for _, c := range t.columns {
		if c.key != nil {
			cells[0] = append(cells[0], c.title)
		}
	}
	for _, r := range shown {
		var line []string
		for _, c := range t.columns {
			if c.key != nil {
				line = append(line, printable.Text(c.key.text(t.p, &r.properties, 0)))
			}
		}
		cells = append(cells, line)
	}
	widths := make([]int, len(cells[0]))
	for _, line := range cells {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for i, line := range cells {
		head := fmt.Sprintf("%7s  %-*s %10s", "Share", barWidth, "", column)
		if i > 0 {
			v := shown[i-1].values[0]
			n := v.samples
			if event.Entries {
				n = v.self
			}
			head = fmt.Sprintf("%6.2f%%  %-*s %10d", percent(v.self, t.base(0)), barWidth, bar(v.self, t.base(0)), n)
		}
		for at, cell := range line {
			head += "  " + cell + strings.Repeat(" ", widths[at]-utf8.RuneCountInString(cell))
		}
		w.WriteString(strings.TrimRight(head, " ") + "\n")
	}
	if rest := len(rows) - len(shown); rest > 0 {
		left := uint64(0)
		for _, r := range rows[len(shown):] {
			left += r.values[0].self
		}
		fmt.Fprintf(w, "%6.2f%%  in %d more\n", percent(left, t.base(0)), rest)
	}
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
