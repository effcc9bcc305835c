package report

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/profile"
)

// DefaultDiffSort returns the keys that WriteDiff uses if Options.Sort is empty.
func DefaultDiffSort() []string { return []string{"dso", "symbol"} }

// difference is a row of a comparison: the shares of the same keys in two profiles. One of the profiles may lack the row.
type difference struct {
	keys          []string
	base, now     float64 // percent
	inBase, inNow bool
}

// WriteDiff writes perf's table of two profiles. For each event of both, it shows the share of each row in base and the change of that
// share in p. The largest changes come first; rows that p lacks come last. Profiles without a common event are an error.
func WriteDiff(w io.Writer, base, p *profile.Profile, o *Options) error {
	options := *o
	options.Children, options.CallGraph = false, CallGraph{}
	if len(options.Sort) == 0 {
		options.Sort = DefaultDiffSort()
	}
	out := bufio.NewWriter(w)
	compared := 0
	for event, e := range p.Events {
		of := sameEvent(base, e)
		if of < 0 || o.Event != "" && e.Name != o.Event {
			continue
		}
		before, err := newTable(base, &options, []int{of})
		if err != nil {
			return err
		}
		now, err := newTable(p, &options, []int{event})
		if err != nil {
			return err
		}
		if compared > 0 {
			out.WriteString("\n")
		}
		compared++
		fmt.Fprintf(out, "# Event '%s'\n#\n", printable.Text(e.Name))
		writeDifferences(out, now, differences(before, now))
	}
	if compared == 0 {
		return fmt.Errorf("the profiles have no event in common: %s; %s", eventNames(base), eventNames(p))
	}
	return out.Flush()
}

func eventNames(p *profile.Profile) string {
	var names []string
	for _, e := range p.Events {
		names = append(names, e.Name)
	}
	return strings.Join(names, ", ")
}

// differences pairs the rows of two tables by their keys.
func differences(before, now *table) []*difference {
	byKeys := map[string]*difference{}
	find := func(t *table, r *row) *difference {
		var keys []string
		for _, c := range t.columns {
			if c.key != nil {
				keys = append(keys, c.key.text(t.p, &r.properties, 0))
			}
		}
		joined := strings.Join(keys, "\x00")
		if byKeys[joined] == nil {
			byKeys[joined] = &difference{keys: keys}
		}
		return byKeys[joined]
	}
	for _, r := range before.rows {
		d := find(before, r)
		d.base, d.inBase = d.base+percent(r.values[0].self, before.base(0)), true
	}
	for _, r := range now.rows {
		d := find(now, r)
		d.now, d.inNow = d.now+percent(r.values[0].self, now.base(0)), true
	}
	all := slices.Collect(maps.Values(byKeys))
	slices.SortFunc(all, func(a, b *difference) int {
		if a.inNow != b.inNow { // rows that the new profile lacks come last
			if a.inNow {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(math.Abs(b.now-b.base), math.Abs(a.now-a.base)), slices.Compare(a.keys, b.keys))
	})
	return all
}

func writeDifferences(out *bufio.Writer, t *table, all []*difference) {
	heads := []string{"Baseline", "Delta Abs"}
	for _, c := range t.columns {
		if c.key != nil {
			heads = append(heads, c.title)
		}
	}
	widths := make([]int, len(heads))
	for i, head := range heads {
		widths[i] = len(head)
	}
	for _, d := range all {
		for i, key := range d.keys {
			widths[i+2] = max(widths[i+2], utf8.RuneCountInString(key))
		}
	}
	out.WriteString("# ")
	for i, head := range heads {
		if i > 0 {
			out.WriteString("  ")
		}
		fmt.Fprintf(out, "%-*s", widths[i], head)
	}
	out.WriteString("\n# ")
	for i, width := range widths {
		if i > 0 {
			out.WriteString("  ")
		}
		out.WriteString(strings.Repeat(".", width))
	}
	out.WriteString("\n#\n")
	for _, d := range all {
		if max(d.base, d.now) < t.o.Limit {
			continue
		}
		base, delta := "", ""
		if d.inBase {
			base = fmt.Sprintf("%.2f%%", d.base)
		}
		if d.inNow {
			delta = fmt.Sprintf("%+.2f%%", d.now-d.base)
		}
		fmt.Fprintf(out, "  %*s  %*s", widths[0], base, widths[1], delta)
		for i, key := range d.keys {
			out.WriteString("  ")
			if i < len(d.keys)-1 {
				fmt.Fprintf(out, "%-*s", widths[i+2], printable.Text(key))
			} else {
				out.WriteString(printable.Text(key))
			}
		}
		out.WriteString("\n")
	}
}
