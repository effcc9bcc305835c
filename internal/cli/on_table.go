package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/serve/remote"
)

// tableFlags are the flags of stat with which its counts have one row for each event, so that those of several nodes fit into a table.
var tableFlags = append([]string{"event", "all-cpus", "cpu", "pid", "tid", "no-inherit", "delay", "timeout", "verbose", "filter", "all-user", "all-kernel",
	"bpf-counters", "null", "scale", "big-num", "no-merge", "detailed", "cputype"}, onFlags...)

// fitsTable reports whether the counts of several nodes are shown in a table.
func fitsTable(cmd *cobra.Command) bool {
	fits := cmd.Name() == "stat"
	cmd.Flags().Visit(func(f *pflag.Flag) { fits = fits && slices.Contains(tableFlags, f.Name) })
	return fits
}

// Limits of what a node may send for a table.
const (
	maxTable  = 1 << 20 // bytes
	maxEvents = 1000
)

// nodeCounts are the counts of a node.
type nodeCounts struct {
	text bytes.Buffer // rows as JSON
}

// errNoTable is the error of a node that sends something else than counts.
var errNoTable = errors.New("what the node sends are no counts of bperf stat: is its bperf of another version?")

// Write takes rows as the node sends them.
func (c *nodeCounts) Write(p []byte) (int, error) {
	if c.text.Len()+len(p) > maxTable {
		return 0, errNoTable
	}
	return c.text.Write(p)
}

// nodeCount is the count of an event on a node.
type nodeCount struct {
	Value   string  `json:"counter-value"` // a number, or why there is none
	Unit    string  `json:"unit"`
	Event   string  `json:"event"`
	Running float64 `json:"pcnt-running"` // in percent of the time in which the event was enabled
}

// number returns the value, or false if there is none.
func (c *nodeCount) number() (float64, bool) {
	v, err := strconv.ParseFloat(c.Value, 64)
	return v, err == nil && !math.IsNaN(v) && !math.IsInf(v, 0)
}

// name returns the name of the event, with the unit of its values.
func (c *nodeCount) name() string { return printable.Text(strings.TrimSpace(c.Event + " " + c.Unit)) }

// field returns the value for the table. ≈ marks a value that is scaled up because the event was multiplexed.
func (c *nodeCount) field() string {
	v, ok := c.number()
	if !ok {
		return printable.Text(c.Value)
	}
	return approximate(c.scaled()) + grouped(v, c.Unit)
}

func (c *nodeCount) scaled() bool { return c.Running < 100 }

func approximate(is bool) string {
	if is {
		return "≈"
	}
	return ""
}

// grouped returns a count with thousands separators. Only values with a unit have decimals.
func grouped(v float64, unit string) string {
	decimals := 0
	if unit != "" {
		decimals = 2
	}
	return printable.Thousands(strconv.FormatFloat(v, 'f', decimals, 64))
}

// rows returns the counts.
func (c *nodeCounts) rows() (rows []nodeCount, err error) {
	lines := bufio.NewScanner(&c.text)
	lines.Buffer(nil, maxTable)
	for lines.Scan() {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var row nodeCount
		if json.Unmarshal(lines.Bytes(), &row) != nil || len(rows) == maxEvents {
			return nil, errNoTable
		}
		if row.Event != "" { // others are metrics without an event, which cannot be added up
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// writeNodes writes a table with a line for each node, a column for each event, and their sums. Nodes without counts are left out: why they have
// none was printed.
func writeNodes(to io.Writer, nodes []*remote.Node, counts [][]nodeCount) error {
	var events []string
	for _, rows := range counts {
		for i := range rows {
			if name := rows[i].name(); !slices.Contains(events, name) {
				events = append(events, name)
			}
		}
	}
	if len(events) == 0 {
		return nil
	}
	lines := [][]string{append([]string{"node"}, events...)}
	for n, rows := range counts {
		if len(rows) == 0 {
			continue
		}
		line := append([]string{printable.Text(nodes[n].Name)}, make([]string, len(events))...)
		for i := range rows {
			line[1+slices.Index(events, rows[i].name())] = rows[i].field()
		}
		lines = append(lines, line)
	}
	total, notes := totals(events, nodes, counts)
	lines = append(lines, total)
	var out bytes.Buffer
	out.WriteString("\n")
	for _, from := range columnBlocks(lines) {
		writeColumns(&out, "l"+strings.Repeat("r", len(from[0])-1), from)
	}
	for _, note := range notes {
		fmt.Fprintln(&out, note)
	}
	_, err := to.Write(out.Bytes())
	return err
}

// totals returns the line of sums, and what is missing from them.
func totals(events []string, nodes []*remote.Node, counts [][]nodeCount) (line, notes []string) {
	for n, rows := range counts {
		if len(rows) == 0 {
			notes = append(notes, "The totals are without "+printable.Text(nodes[n].Name)+".")
		}
	}
	line = []string{"total"}
	for _, event := range events {
		var sum float64
		var unit string
		var missing []string
		counted, scaled := false, false
		for n, rows := range counts {
			if len(rows) == 0 {
				continue
			}
			at := slices.IndexFunc(rows, func(c nodeCount) bool { return c.name() == event })
			v, ok := 0.0, at >= 0
			if ok {
				v, ok = rows[at].number()
			}
			if !ok {
				missing = append(missing, printable.Text(nodes[n].Name))
				continue
			}
			counted, unit, scaled, sum = true, rows[at].Unit, scaled || rows[at].scaled(), sum+v
		}
		if !counted {
			line = append(line, "-")
			continue
		}
		line = append(line, approximate(scaled)+grouped(sum, unit))
		if len(missing) > 0 {
			notes = append(notes, fmt.Sprintf("The total of %s is without %s.", event, strings.Join(missing, ", ")))
		}
	}
	return line, notes
}

// tableWidth is the width that a table keeps to, if its columns let it, in characters.
const tableWidth = 80

// columnBlocks splits the columns of a table into tables that are not wider than tableWidth. Each has the first column.
func columnBlocks(lines [][]string) (blocks [][][]string) {
	width := func(column int) int {
		most := 0
		for _, line := range lines {
			most = max(most, utf8.RuneCountInString(line[column]))
		}
		return most + 2
	}
	columns := len(lines[0])
	for from := 1; from < columns; {
		to, taken := from, width(0)
		for to < columns && (to == from || taken+width(to) <= tableWidth) {
			taken += width(to)
			to++
		}
		var block [][]string
		for _, line := range lines {
			block = append(block, append([]string{line[0]}, line[from:to]...))
		}
		blocks = append(blocks, block)
		from = to
	}
	return blocks
}
