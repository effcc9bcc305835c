package cli

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/serve/remote"
)

// mostWaiting is the number of tables of a node that wait for those of other nodes. Then bperf prints what there is.
const mostWaiting = 3

// nodesTop merges the tables that bperf top prints on several nodes. The n-th tables of all nodes become one.
type nodesTop struct {
	to   io.Writer
	sort string // name of the column to sort by; "" for the first one

	mu      sync.Mutex // guards all below, and what is written
	nodes   []*nodeTop
	printed bool // a table
}

// nodeTop takes what bperf top prints on a node.
type nodeTop struct {
	all  *nodesTop
	name string

	begun   []byte    // a line without its end
	table   *topTable // that is being read; nil for none
	bytes   int       // of that table
	waiting []*topTable
	ended   string // why there are no more tables; "" while there may be
	failed  bool   // ended is an error
}

// topTable is a table of bperf top, as writeTop writes it.
type topTable struct {
	lines  []string // that say what the rows did together, and what the observation costs
	titles []string // of the columns
	starts []int    // where they begin on the line, in characters
	rows   [][]string
}

// newNodesTop returns the merger of the tables of nodes.
func newNodesTop(to io.Writer, nodes []*remote.Node, sort string) *nodesTop {
	all := &nodesTop{to: to, sort: sort}
	for _, n := range nodes {
		all.nodes = append(all.nodes, &nodeTop{all: all, name: printable.Text(n.Name)})
	}
	return all
}

// errNoTop is the error of a node that sends something else than tables.
var errNoTop = errors.New("what the node sends are no tables of bperf top: is its bperf of another version?")

// Write takes text as the node sends it.
func (n *nodeTop) Write(p []byte) (int, error) {
	n.all.mu.Lock()
	defer n.all.mu.Unlock()
	if n.bytes += len(p); n.bytes > maxTable {
		return 0, errNoTop
	}
	for rest := p; len(rest) > 0; {
		line, after, ended := bytes.Cut(rest, []byte("\n"))
		n.begun = append(n.begun, line...)
		if rest = after; ended {
			line := string(n.begun)
			n.begun = n.begun[:0]
			if err := n.take(line); err != nil {
				return 0, err
			}
		}
	}
	return len(p), n.all.print()
}

// take takes a line. An empty one separates tables.
func (n *nodeTop) take(line string) error {
	if line == "" {
		n.finish()
		return nil
	}
	if n.table == nil {
		n.table = new(topTable)
	}
	return n.table.take(line)
}

// finish ends the table that is being read.
func (n *nodeTop) finish() {
	if n.table != nil {
		n.waiting = append(n.waiting, n.table)
	}
	n.table, n.bytes = nil, 0
}

// end ends the tables of the node, with an error if it went away before its end.
func (n *nodeTop) end(err error, status int) error {
	n.all.mu.Lock()
	defer n.all.mu.Unlock()
	switch n.failed = true; {
	case err != nil:
		n.ended = printable.Text(err.Error())
	case status != 0:
		n.ended = fmt.Sprintf("it ended with status %d", status)
	default:
		n.ended, n.failed = "it has ended", false
	}
	if !n.failed {
		n.finish() // a table that was cut off has wrong sums
	}
	return n.all.print()
}

// take takes a line of a table.
func (t *topTable) take(line string) error {
	switch {
	case len(t.lines) < 2:
		t.lines = append(t.lines, printable.Text(line))
	case t.titles == nil:
		t.takeTitles(line)
	default:
		row, ok := t.cells(line)
		if !ok {
			return errNoTop
		}
		t.rows = append(t.rows, row)
	}
	return nil
}

// takeTitles takes the line of titles. Two spaces separate them.
func (t *topTable) takeTitles(line string) {
	at := 0
	for part := range strings.SplitSeq(line, "  ") {
		if title := strings.TrimLeft(part, " "); title != "" {
			t.titles = append(t.titles, printable.Text(title))
			t.starts = append(t.starts, at+len(part)-len(title))
		}
		at += utf8.RuneCountInString(part) + 2
	}
}

// hasText reports whether a column has text, which begins below its title. The others have numbers, which end there, and come first.
func hasText(title string) bool { return title == "type" || title == "object" || title == "name" }

// cells returns the cells of a row.
func (t *topTable) cells(line string) (cells []string, ok bool) {
	words := slices.IndexFunc(t.titles, hasText)
	if words < 0 {
		return nil, false
	}
	text := []rune(line)
	part := func(i int) string {
		from, to := min(t.starts[i], len(text)), len(text)
		if i+1 < len(t.starts) {
			to = min(t.starts[i+1], len(text))
		}
		return printable.Text(strings.TrimRight(string(text[from:to]), " "))
	}
	numbers := strings.Fields(string(text[:min(t.starts[words], len(text))]))
	if len(numbers) != words {
		return nil, false
	}
	for _, number := range numbers {
		cells = append(cells, printable.Text(number))
	}
	for i := words; i < len(t.titles); i++ {
		cells = append(cells, part(i))
	}
	return cells, true
}

// print prints the tables that are complete.
func (all *nodesTop) print() error {
	for all.isDue() {
		var b bytes.Buffer
		if all.printed {
			b.WriteByte('\n')
		}
		all.printed = true
		all.merge(&b)
		if _, err := all.to.Write(b.Bytes()); err != nil {
			return fmt.Errorf("write the table: %w", err)
		}
	}
	return nil
}

// isDue reports whether there is a table of each node that goes on, or of one of them more than may wait.
func (all *nodesTop) isDue() bool {
	missing, most := false, 0
	for _, n := range all.nodes {
		missing = missing || len(n.waiting) == 0 && n.ended == ""
		most = max(most, len(n.waiting))
	}
	return most > 0 && (!missing || most > mostWaiting)
}

// merge writes the first table that waits of each node, as one. Nodes whose tables have other columns, because they show something else,
// have a table below.
func (all *nodesTop) merge(b *bytes.Buffer) {
	var tables []*mergedTable
	for _, n := range all.nodes {
		if len(n.waiting) == 0 {
			if why := cmp.Or(n.ended, "no table yet"); n.ended == "" || n.failed {
				fmt.Fprintf(b, "%s: %s\n", n.name, why)
			}
			continue
		}
		t := n.waiting[0]
		n.waiting = n.waiting[1:]
		for _, line := range t.lines {
			fmt.Fprintf(b, "%s: %s\n", n.name, line)
		}
		if len(t.rows) == 0 {
			continue
		}
		i := slices.IndexFunc(tables, func(m *mergedTable) bool { return slices.Equal(m.titles, t.titles) })
		if i < 0 {
			i, tables = len(tables), append(tables, &mergedTable{titles: t.titles})
		}
		for _, cells := range t.rows {
			tables[i].rows = append(tables[i].rows, nodeRow{n.name, cells})
		}
	}
	for _, m := range tables {
		m.sortBy(all.sort)
		m.write(b)
	}
}

// mergedTable has the rows of nodes whose tables have the same columns.
type mergedTable struct {
	titles []string
	rows   []nodeRow
}

// nodeRow is a row of a node.
type nodeRow struct {
	node  string
	cells []string
}

// sortBy sorts the rows by a column, as the nodes did: words and IDs rise, amounts fall. Rows that are equal stay in the order of the nodes.
func (m *mergedTable) sortBy(name string) {
	column := max(0, slices.IndexFunc(m.titles, func(title string) bool { return isColumn(title, name) }))
	title := m.titles[column]
	slices.SortStableFunc(m.rows, func(a, b nodeRow) int {
		x, y := a.cells[column], b.cells[column]
		switch {
		case hasText(title):
			return cmp.Compare(x, y)
		case isID(title):
			return cmp.Compare(amount(x), amount(y))
		}
		return cmp.Compare(amount(y), amount(x))
	})
}

func isID(title string) bool { return title == "id" || title == "pid" || title == "tid" }

// isColumn reports whether the column with a title is the one that --sort names so.
func isColumn(title, name string) bool {
	switch name {
	case "share":
		name = "now"
	case "total":
		name = "all"
	case "id":
		return isID(title)
	}
	return title == name || strings.HasPrefix(title, name+" ") || strings.HasPrefix(title, name+"/")
}

// amount returns the value of a cell, which is negative without one: "-".
func amount(cell string) float64 {
	factor := 1.0
	if i := strings.IndexByte("kMGT", cell[len(cell)-1]); i >= 0 {
		factor, cell = math.Pow(1000, float64(i+1)), cell[:len(cell)-1]
	}
	v, err := strconv.ParseFloat(cell, 64)
	if err != nil {
		return -1
	}
	return v * factor
}

func (m *mergedTable) write(b *bytes.Buffer) {
	lines, alignment := [][]string{append([]string{"node"}, m.titles...)}, "l"
	for _, title := range m.titles {
		if hasText(title) {
			alignment += "l"
		} else {
			alignment += "r"
		}
	}
	for _, row := range m.rows {
		lines = append(lines, append([]string{row.node}, row.cells...))
	}
	for _, line := range alignColumns(alignment, lines) {
		b.Write(line)
	}
}
