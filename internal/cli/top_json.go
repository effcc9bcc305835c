package cli

import (
	"bytes"
	"errors"
	"math"

	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/top"
)

// topJSON is what top prints for an interval.
type topJSON struct {
	Subject string          `json:"subject"` // what the rows are: programs, processes, threads, cgroups or functions
	Seconds float64         `json:"seconds"` // length of the interval
	Total   string          `json:"total"`   // what the rows did together, as a text
	Cost    string          `json:"cost"`    // what the observation costs, as a text
	Columns []topColumnJSON `json:"columns"`
	Rows    []topRowJSON    `json:"rows"` // in the order of --sort
}

type topColumnJSON struct {
	Name  string `json:"name"`  // as --sort has it
	Title string `json:"title"` // with the unit of the values
	Kind  string `json:"kind"`  // amount, number or word: the largest amount comes first, the lowest number, the first word
}

type topRowJSON struct {
	ID    uint64        `json:"id"`    // of a program, process, thread or cgroup; any number of a function
	Cells []topCellJSON `json:"cells"` // by column
}

type topCellJSON struct {
	Text  string   `json:"text"`            // as tables have it: rounded, and with ~ before an estimate
	Value *float64 `json:"value,omitempty"` // of words, and of what was not counted
}

// topKinds are the kinds of columns in JSON.
var topKinds = map[top.Kind]string{top.Amount: "amount", top.Number: "number", top.Word: "word"}

// writeTopJSON writes a reading as a line. Trends are for screens only.
func writeTopJSON(b *bytes.Buffer, subject string, columns []top.Column, r *top.Reading, order top.Order) error {
	data := topJSON{Subject: subject, Seconds: r.Window.Seconds(), Total: r.Total, Cost: r.Cost, Rows: []topRowJSON{}}
	for _, c := range columns {
		if kind, is := topKinds[c.Kind]; is {
			data.Columns = append(data.Columns, topColumnJSON{c.Name, c.Title, kind})
		}
	}
	order.Sort(columns, r.Rows)
	for _, row := range r.Rows {
		line := topRowJSON{ID: row.ID}
		for i, c := range row.Cells {
			switch kind := columns[i].Kind; {
			case kind == top.Trend:
			case kind == top.Word || math.IsNaN(c.Value):
				line.Cells = append(line.Cells, topCellJSON{Text: c.Text})
			default:
				line.Cells = append(line.Cells, topCellJSON{c.Text, &c.Value})
			}
		}
		data.Rows = append(data.Rows, line)
	}
	return writeRecord(b, topSchema, r.Time, data)
}

// errNoTop is the error of a node that sends something else than readings.
var errNoTop = errors.New("what the node sends is no JSON of bperf top: is its bperf of another version?")

// widestCell is the most characters that are kept of a text that another node sends: all rows are as wide as the widest.
const widestCell = 500

// table returns the columns and rows, for sorting and printing.
func (t *topJSON) table() (columns []top.Column, rows []top.Row, err error) {
	for _, c := range t.Columns {
		kind, known := kindOf(c.Kind)
		if !known {
			return nil, nil, errNoTop
		}
		columns = append(columns, top.Column{Name: c.Name, Title: printable.Middle(c.Title, widestCell), Kind: kind})
	}
	for _, r := range t.Rows {
		row := top.Row{ID: r.ID}
		for _, c := range r.Cells {
			cell := top.Cell{Text: printable.Middle(c.Text, widestCell), Value: math.NaN()}
			if c.Value != nil {
				cell.Value = *c.Value
			}
			row.Cells = append(row.Cells, cell)
		}
		if len(columns) == 0 || len(row.Cells) != len(columns) {
			return nil, nil, errNoTop
		}
		rows = append(rows, row)
	}
	return columns, rows, nil
}

func kindOf(name string) (top.Kind, bool) {
	for kind, known := range topKinds {
		if known == name {
			return kind, true
		}
	}
	return 0, false
}
