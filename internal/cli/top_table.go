package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/top"
)

// topPrinter prints what happened in each interval.
type topPrinter struct {
	source top.Source
	order  top.Order
	json   bool
}

// run prints each reading with one write, until the context is done or count of them are printed.
func (p *topPrinter) run(ctx context.Context, w io.Writer, interval time.Duration, count int) error {
	columns := p.source.Columns()
	err := printIntervals(ctx, w, "the table", interval, count, func(b *bytes.Buffer, first bool) error {
		reading, err := p.source.Next(ctx)
		if err != nil {
			return err
		}
		if p.json {
			return writeTopJSON(b, p.source.Subject(), columns, reading, p.order)
		}
		if !first {
			b.WriteByte('\n')
		}
		writeTop(b, columns, reading, p.order)
		return nil
	})
	if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// writeTop writes a reading as a table below two lines.
func writeTop(b *bytes.Buffer, columns []top.Column, r *top.Reading, order top.Order) {
	writeTopHead(b, "", r)
	writeTopRows(b, columns, r.Rows, order)
}

// writeTopHead writes the lines above a table, each after a prefix.
func writeTopHead(b *bytes.Buffer, prefix string, r *top.Reading) {
	fmt.Fprintf(b, "%s%s, %.3f s: %s\n", prefix, seconds(r.Time), r.Window.Seconds(), printable.Text(r.Total))
	fmt.Fprintf(b, "%s%s\n", prefix, printable.Text(r.Cost))
}

// writeTopRows sorts rows and writes them below their titles. Without rows, it writes nothing.
func writeTopRows(b *bytes.Buffer, columns []top.Column, rows []top.Row, order top.Order) {
	if len(rows) == 0 {
		return
	}
	lines, alignment := [][]string{nil}, ""
	for _, c := range columns {
		if c.Kind == top.Trend {
			continue
		}
		lines[0] = append(lines[0], printable.Text(c.Title))
		alignment += string(alignmentOf(c))
	}
	order.Sort(columns, rows)
	for _, row := range rows {
		var line []string
		for i, c := range row.Cells {
			if columns[i].Kind != top.Trend {
				line = append(line, printable.Text(c.Text))
			}
		}
		lines = append(lines, line)
	}
	for _, line := range alignColumns(alignment, lines) {
		b.Write(line)
	}
}

// alignmentOf returns l or r.
func alignmentOf(c top.Column) byte {
	if c.Kind >= top.Word {
		return 'l'
	}
	return 'r'
}
