package cli

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/stat"
	"github.com/bperf/bperf/internal/userprog"
)

// mapFormats are the formats of --map-format.
var mapFormats = []string{"table", "json", "csv"}

// mapOptions select how the maps of programs are printed.
type mapOptions struct{ format, output string }

// open returns a printer of all maps except those that are shown as profiles. It returns nil if there is nothing to print.
func (o *mapOptions) open(stderr io.Writer, quiet bool, programs *userprog.Programs, shown []*userprog.Profile) (*mapPrinter, error) {
	if programs == nil || quiet && o.output == "" {
		return nil, nil
	}
	p := &mapPrinter{format: o.format, programs: programs, w: stderr}
	for _, s := range shown {
		p.shown = append(p.shown, s.Map)
	}
	if o.output == "" {
		return p, nil
	}
	file, err := os.Create(o.output)
	if err != nil {
		return nil, fmt.Errorf("--map-output: %w", err)
	}
	p.w, p.file = file, file
	return p, nil
}

// mapPrinter prints the maps of programs.
type mapPrinter struct {
	format   string
	programs *userprog.Programs
	shown    []string // maps to leave out
	w        io.Writer
	file     io.Closer // nil if there is none
}

// Close closes the file. It does nothing for nil.
func (p *mapPrinter) Close() error {
	if p == nil || p.file == nil {
		return nil
	}
	return p.file.Close()
}

// print prints the current entries of the maps. It skips maps without entries, and does nothing for nil.
func (p *mapPrinter) print() error {
	if p == nil {
		return nil
	}
	all, err := p.programs.Maps(p.shown...)
	if err != nil {
		return err
	}
	now := time.Now()
	for i := range all {
		if len(all[i].Rows) == 0 {
			continue
		}
		if err := p.printMap(&all[i], now); err != nil {
			return err
		}
	}
	return nil
}

func (p *mapPrinter) printMap(m *userprog.Map, now time.Time) error {
	switch p.format {
	case "json":
		return writeMapJSON(p.w, m, now)
	case "csv":
		return writeMapCSV(p.w, m, now)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\nBPF map %s at %s:\n", printable.Text(m.Name), now.Format(time.TimeOnly))
	if histogram := slices.IndexFunc(m.Rows[0], isHistogram); histogram >= 0 {
		writeHistograms(&b, m, histogram)
	} else {
		writeMapTable(&b, m)
	}
	if more := len(m.Rows) - mostMapRows; m.Cut {
		fmt.Fprintf(&b, "  and at least %d more\n", max(more, 1))
	} else if more > 0 {
		fmt.Fprintf(&b, "  and %d more\n", more)
	}
	_, err := io.WriteString(p.w, b.String())
	return err
}

// mostMapRows limits the rows of a map that a table shows.
const mostMapRows = 30

// writeMapTable writes the first rows, which have the largest numbers.
func writeMapTable(b *strings.Builder, m *userprog.Map) {
	lines := [][]string{m.Columns}
	for _, row := range m.Rows[:min(mostMapRows, len(m.Rows))] {
		lines = append(lines, texts(row))
	}
	widths := make([]int, len(m.Columns))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], len(cell))
		}
	}
	for _, line := range lines {
		for i, cell := range line {
			fmt.Fprintf(b, "  %*s", widths[i], cell)
		}
		b.WriteByte('\n')
	}
}

// texts returns the printed cells of a row.
func texts(row userprog.Row) (line []string) {
	for _, cell := range row {
		line = append(line, printable.Text(fmt.Sprint(cell)))
	}
	return line
}

func isHistogram(cell any) bool {
	_, is := cell.([]uint64)
	return is
}

// writeHistograms draws the histograms of a column. The other cells of the row are the heading, or the column's name if there are none.
func writeHistograms(b *strings.Builder, m *userprog.Map, column int) {
	for _, row := range m.Rows[:min(mostMapRows, len(m.Rows))] {
		var heading []string
		for i, cell := range texts(row) {
			if i != column {
				heading = append(heading, printable.Text(m.Columns[i])+" "+cell)
			}
		}
		if len(heading) == 0 {
			heading = append(heading, printable.Text(m.Columns[column]))
		}
		stat.WriteBuckets(b, strings.Join(heading, ", "), log2Buckets(row[column].([]uint64)), 1)
	}
}

// log2Buckets converts counts by powers of 2 to buckets, up to the last count that is not 0.
func log2Buckets(counts []uint64) (all []count.Bucket) {
	for i, n := range counts {
		all = append(all, count.Bucket{Low: math.Exp2(float64(i)), High: math.Exp2(float64(i+1)) - 1, Runs: n})
	}
	if len(all) > 0 {
		all[0].Low = 0
	}
	for len(all) > 0 && all[len(all)-1].Runs == 0 {
		all = all[:len(all)-1]
	}
	return all
}

// mapJSON is the content of a map.
type mapJSON struct {
	Map     string         `json:"map"`           // its name
	Columns []string       `json:"columns"`       // names of the columns
	Keys    int            `json:"keys"`          // number of the first columns, which hold the key
	Rows    []userprog.Row `json:"rows"`          // an array of cells for each entry: numbers, texts, and arrays of counts by powers of 2
	Cut     bool           `json:"cut,omitempty"` // whether the map has more entries
}

// writeMapJSON writes a map as an object on one line.
func writeMapJSON(w io.Writer, m *userprog.Map, now time.Time) error {
	return writeRecord(w, mapSchema, now, mapJSON{m.Name, m.Columns, m.Keys, m.Rows, m.Cut})
}

// writeMapCSV writes a map as CSV. The first line has the names of the columns; each further line starts with the time and the map's name.
func writeMapCSV(w io.Writer, m *userprog.Map, now time.Time) error {
	out := csv.NewWriter(w)
	lines := [][]string{{"time", "map"}}
	for _, name := range m.Columns {
		lines[0] = append(lines[0], printable.Text(name))
	}
	for _, row := range m.Rows {
		lines = append(lines, append([]string{now.UTC().Format(time.RFC3339Nano), printable.Text(m.Name)}, texts(row)...))
	}
	return out.WriteAll(lines)
}
