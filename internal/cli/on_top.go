package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/serve/remote"
	"github.com/bperf/bperf/internal/top"
)

// mostWaiting is the number of readings of a node that wait for those of other nodes. Then bperf prints what there is.
const mostWaiting = 3

// maxReading is the most bytes of a reading that a node may send: 16,384 functions with names of 500 bytes.
const maxReading = 8 << 20

// nodesTop merges what bperf top observes on several nodes. The n-th readings of all nodes become one table.
type nodesTop struct {
	to   io.Writer
	sort string // name of the column to sort by; "" for the first one

	mu      sync.Mutex // guards all below, and what is written
	nodes   []*nodeTop
	printed bool // a table
}

// nodeTop takes what bperf top --json prints on a node.
type nodeTop struct {
	all  *nodesTop
	name string

	begun   []byte // a line without its end
	waiting []nodeReading
	ended   string // why there are no more readings; "" while there may be
	failed  bool   // ended is an error
}

// nodeReading is a reading of a node.
type nodeReading struct {
	top.Reading
	columns []top.Column
}

// newNodesTop returns the merger of the readings of nodes.
func newNodesTop(to io.Writer, nodes []*remote.Node, sort string) *nodesTop {
	all := &nodesTop{to: to, sort: sort}
	for _, n := range nodes {
		all.nodes = append(all.nodes, &nodeTop{all: all, name: printable.Text(n.Name)})
	}
	return all
}

// Write takes JSON as the node sends it: a line is a reading.
func (n *nodeTop) Write(p []byte) (int, error) {
	n.all.mu.Lock()
	defer n.all.mu.Unlock()
	for rest := p; len(rest) > 0; {
		line, after, ended := bytes.Cut(rest, []byte("\n"))
		if len(n.begun)+len(line) > maxReading {
			return 0, errNoTop
		}
		n.begun = append(n.begun, line...)
		if rest = after; ended {
			if err := n.take(n.begun); err != nil {
				return 0, err
			}
			n.begun = n.begun[:0]
		}
	}
	return len(p), n.all.print()
}

// take takes a line.
func (n *nodeTop) take(line []byte) error {
	var record struct {
		Schema schema
		Time   time.Time
		Data   topJSON
	}
	if json.Unmarshal(line, &record) != nil || record.Schema != topSchema {
		return errNoTop
	}
	t := &record.Data
	columns, rows, err := t.table()
	if err != nil {
		return err
	}
	window := time.Duration(t.Seconds * float64(time.Second))
	n.waiting = append(n.waiting, nodeReading{top.Reading{Time: record.Time, Window: window, Rows: rows, Total: t.Total, Cost: t.Cost}, columns})
	return nil
}

// end ends the readings of the node, with an error if it went away before its end.
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
	return n.all.print()
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

// isDue reports whether there is a reading of each node that goes on, or of one of them more than may wait.
func (all *nodesTop) isDue() bool {
	missing, most := false, 0
	for _, n := range all.nodes {
		missing = missing || len(n.waiting) == 0 && n.ended == ""
		most = max(most, len(n.waiting))
	}
	return most > 0 && (!missing || most > mostWaiting)
}

// merge writes the first reading that waits of each node, as one table. Nodes whose readings have other columns, because they show
// something else, have a table below.
func (all *nodesTop) merge(b *bytes.Buffer) {
	var tables []nodeReading
	for _, n := range all.nodes {
		if len(n.waiting) == 0 {
			if why := cmp.Or(n.ended, "no table yet"); n.ended == "" || n.failed {
				fmt.Fprintf(b, "%s: %s\n", n.name, why)
			}
			continue
		}
		r := n.waiting[0]
		n.waiting = n.waiting[1:]
		writeTopHead(b, n.name+": ", &r.Reading)
		if len(r.Rows) == 0 {
			continue
		}
		i := slices.IndexFunc(tables, func(t nodeReading) bool { return slices.Equal(t.columns, r.columns) })
		if i < 0 {
			i, tables = len(tables), append(tables, nodeReading{columns: r.columns})
		}
		for _, row := range r.Rows {
			row.Cells = append([]top.Cell{{Text: n.name}}, row.Cells...)
			tables[i].Rows = append(tables[i].Rows, row)
		}
	}
	for _, t := range tables {
		byName := slices.IndexFunc(t.columns, func(c top.Column) bool { return c.Name == all.sort })
		columns := append([]top.Column{{Title: "node", Kind: top.Word}}, t.columns...)
		writeTopRows(b, columns, t.Rows, top.Order{Column: 1 + max(0, byName)})
	}
}
