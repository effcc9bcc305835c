package report

import (
	"encoding/csv"
	"io"

	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/profile"
)

// WriteCSV writes the rows of all tables as CSV, with a head line for each table. Percentages have two decimals, as in perf's tables; other
// numbers are the plain counts.
func WriteCSV(w io.Writer, p *profile.Profile, o *Options) error {
	c := csv.NewWriter(w)
	for _, events := range groupEvents(p.Events, o.Group) {
		flat := *o
		flat.CallGraph.Mode = NoGraph
		t, err := newTable(p, &flat, events)
		if err != nil {
			return err
		}
		var head []string
		for _, column := range t.columns {
			if column.key != nil {
				head = append(head, column.name)
				continue
			}
			for _, event := range events {
				head = append(head, column.name+":"+printable.Text(p.Events[event].Name))
			}
		}
		if err := c.Write(head); err != nil {
			return err
		}
		for _, r := range t.rows {
			if !t.shown(r) {
				continue
			}
			if err := c.Write(t.record(r)); err != nil {
				return err
			}
		}
	}
	c.Flush()
	return c.Error()
}

// record returns a row as the fields of a CSV record.
func (t *table) record(r *row) []string {
	var fields []string
	for _, column := range t.columns {
		if column.key != nil {
			fields = append(fields, printable.Text(column.key.text(t.p, &r.properties, 0)))
			continue
		}
		for i := range t.events {
			fields = append(fields, column.valueText(t, r, i))
		}
	}
	return fields
}
