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

// printTop prints a table for each interval with one write, until the context is done or count tables are printed.
func printTop(ctx context.Context, w io.Writer, source top.Source, order top.Order, interval time.Duration, count int) error {
	columns := source.Columns()
	err := printIntervals(ctx, w, "the table", interval, count, func(b *bytes.Buffer, first bool) error {
		reading, err := source.Next(ctx)
		if err != nil {
			return err
		}
		if !first {
			b.WriteByte('\n')
		}
		writeTop(b, columns, reading, order)
		return nil
	})
	if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func writeTop(b *bytes.Buffer, columns []top.Column, r *top.Reading, order top.Order) {
	fmt.Fprintf(b, "%s, %.3f s: %s\n%s\n", seconds(r.Time), r.Window.Seconds(), printable.Text(r.Total), printable.Text(r.Cost))
	if len(r.Rows) == 0 {
		return
	}
	lines, alignment := [][]string{nil}, ""
	for _, c := range columns {
		if c.Kind == top.Trend {
			continue
		}
		lines[0] = append(lines[0], c.Title)
		alignment += string(alignmentOf(c))
	}
	order.Sort(columns, r.Rows)
	for _, row := range r.Rows {
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
