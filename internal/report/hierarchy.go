package report

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// levelIndent is the indentation of a level below the level above, in characters.
const levelIndent = 3

// hierarchy is a table as levels of rows. The rows of the first level have equal values of the first key, those of each further level also
// equal values of one more key.
type hierarchy struct {
	values []*column // the columns with values, which every row has
	keys   []*column // one for each level
	levels []levelTable
}

// levelTable is a table with the values and the first keys.
type levelTable struct {
	*table
	below map[string][]*row // by the identity of a row of the level above, in their order
}

// newHierarchy returns the levels of a table. The table itself is the last one: only its rows have call trees.
func newHierarchy(last *table) *hierarchy {
	h := &hierarchy{}
	for _, c := range last.columns {
		if c.key == nil {
			h.values = append(h.values, c)
		} else {
			h.keys = append(h.keys, c)
		}
	}
	flat := *last.o
	flat.CallGraph.Mode = NoGraph
	for i := range h.keys {
		t := last
		if i < len(h.keys)-1 {
			t = tableOf(last.p, &flat, append(h.values[:len(h.values):len(h.values)], h.keys[:i+1]...), last.events)
		}
		l := levelTable{t, map[string][]*row{}}
		for _, r := range t.rows {
			above := h.identity(t, r, i)
			l.below[above] = append(l.below[above], r)
		}
		h.levels = append(h.levels, l)
	}
	return h
}

// identity returns what is equal for all rows with the same values of the first keys.
func (h *hierarchy) identity(t *table, r *row, keys int) string {
	var b []byte
	for _, c := range h.keys[:keys] {
		begin := len(b)
		b = c.key.identity(t.p, b, &r.properties)
		b = number(b, uint32(len(b)-begin))
	}
	return string(b)
}

// hierarchyPrinter prints the rows of a hierarchy.
type hierarchyPrinter struct {
	*textPrinter
	*hierarchy
	widths map[*column]int
}

func (t *textPrinter) printHierarchy(h *hierarchy) {
	last := h.levels[len(h.levels)-1]
	printer := &hierarchyPrinter{textPrinter: t, hierarchy: h, widths: map[*column]int{}}
	for i, width := range last.widths() {
		printer.widths[last.columns[i]] = width
	}
	if !t.o.NoHeads {
		t.printSums(last.table)
		printer.printHeads()
	}
	printer.printLevel(0, "")
	t.w.WriteString("\n\n")
}

// room returns the blanks between values and keys that the indentation of the last level needs. With a separator, there are none.
func (h *hierarchyPrinter) room() string {
	if h.o.Separator != "" {
		return ""
	}
	return strings.Repeat(" ", levelIndent*(len(h.keys)-1))
}

// printHeads prints the titles of the values, then those of all keys in one column.
func (h *hierarchyPrinter) printHeads() {
	var values, keys []string
	valuesWidth, keysWidth := len(h.room()), 0
	for i, c := range h.values {
		values = append(values, fmt.Sprintf("%*s", h.widths[c], c.title))
		valuesWidth += h.widths[c]
		if i > 0 {
			valuesWidth += len(h.separator())
		}
	}
	for i, c := range h.keys {
		keys = append(keys, strings.TrimSpace(c.title))
		keysWidth = max(keysWidth, levelIndent*i+h.widths[c])
	}
	titles := strings.Join(keys, " / ")
	fmt.Fprintf(h.w, "# %s%s%s%s\n", h.room(), strings.Join(values, h.separator()), h.separator(), titles)
	fmt.Fprintf(h.w, "# %s%s%s\n#\n", strings.Repeat(".", valuesWidth), h.separator(), strings.Repeat(".", max(keysWidth, len(titles))))
}

// printLevel prints the rows of a level that are below a row, by its identity. Below each row stand its own.
func (h *hierarchyPrinter) printLevel(depth int, above string) {
	if depth == len(h.levels) {
		return
	}
	l, printed := h.levels[depth], false
	for _, r := range l.below[above] {
		if !l.shown(r) {
			continue
		}
		printed = true
		h.printRow(l.table, depth, r)
		h.printCalls(l.table, r)
		h.printLevel(depth+1, h.identity(l.table, r, depth+1))
	}
	if !printed && depth > 0 {
		indent := levelIndent*depth + len(h.room()) + len(h.separator())
		for _, c := range h.values {
			indent += len(h.separator()) + h.widths[c]
		}
		fmt.Fprintf(h.w, "%*sno entry >= %.2f%%\n", indent, "", h.o.Limit)
	}
}

func (h *hierarchyPrinter) printRow(t *table, depth int, r *row) {
	h.w.WriteString(strings.Repeat(" ", levelIndent*depth))
	for i, c := range h.values {
		if i > 0 || h.o.Separator == "" {
			h.w.WriteString(h.separator())
		}
		text := t.cell(c, r, h.widths[c])
		fmt.Fprintf(h.w, "%-*s", h.widths[c], text)
	}
	key := h.keys[depth]
	text := t.cell(key, r, h.widths[key])
	if missing := h.widths[key] - utf8.RuneCountInString(text); missing > 0 && key.key.fills {
		text += strings.Repeat(" ", missing)
	}
	fmt.Fprintf(h.w, "%s%s%s\n", h.room(), h.separator(), strings.TrimLeft(text, " "))
}
