package stat

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/bperf/bperf/internal/printable"
)

type csvLines struct {
	w io.Writer
	o OutputOptions

	runs    int
	columns []string // with MetricOnly: those of the last heading
}

// NewCSV prints perf's separated values: a line for each event, without a heading and without the
// times. A field that holds the separator or a quote is quoted as in RFC 4180.
func NewCSV(w io.Writer, o OutputOptions) Printer { return &csvLines{w: w, o: o} }

// CheckSeparator says what is wrong with a separator; with these, fields could not be told apart.
func CheckSeparator(sep string) error {
	if sep == "" {
		return fmt.Errorf("the separator is empty")
	}
	if strings.ContainsAny(sep, "\"\r\n") {
		return fmt.Errorf("the separator %q has a quote or an end of line, which fields are quoted with", sep)
	}
	return nil
}

func (c *csvLines) Header(o Outcome) error {
	c.runs, c.columns = o.Runs, nil
	return nil
}

func (c *csvLines) End(Outcome) error { return nil }

func (c *csvLines) Snapshot(s Snapshot) error {
	var b strings.Builder
	if c.o.MetricOnly {
		c.metricTable(&b, s)
	} else {
		c.table(&b, s)
	}
	_, err := io.WriteString(c.w, b.String())
	return err
}

func (c *csvLines) table(b *strings.Builder, s Snapshot) {
	cgroups := hasGroups(s.Rows)
	for i := range s.Rows {
		r := &s.Rows[i]
		if c.o.hidden(r) {
			continue
		}
		prefix := append(c.time(s), c.place(r.Place)...)
		fields := slices.Concat(prefix, c.count(r, cgroups))
		if len(r.Metrics) == 0 {
			c.line(b, append(append(fields, "", ""), c.runFields(r)...))
		}
		for j, m := range r.Metrics {
			if j > 0 { // a line of its own, that has nothing else
				fields = append(prefix, make([]string, len(fields)-len(prefix))...)
			}
			runs := c.runFields(r)
			if j > 0 {
				clear(runs)
			}
			c.line(b, slices.Concat(fields, []string{fixed(m.Value, m.decimals()), m.Unit}, runs))
		}
	}
}

// count is a row's fields between the place and the metric.
func (c *csvLines) count(r *Row, cgroups bool) []string {
	value, variance := r.absent(), ""
	if value == "" {
		value = fixed(r.printed(), r.decimals())
		variance = fixed(r.Variance, 2) + "%"
	}
	fields := []string{value, r.Event.Unit, r.Name}
	if cgroups {
		fields = append(fields, r.group())
	}
	if c.runs > 1 {
		fields = append(fields, variance)
	}
	return append(fields, strconv.FormatUint(r.Running, 10), fixed(r.share(), 2))
}

// runFields are those of BPF programs, at the end: what single runs counted, and how many are in the count; and why runs are in none.
func (c *csvLines) runFields(r *Row) []string {
	if !c.o.Programs {
		return nil
	}
	counted := ""
	if r.Runs != nil {
		counted = strconv.FormatUint(r.Runs.Counted, 10)
	}
	return append(append([]string{counted}, r.runValues()...), r.droppedCSV())
}

// metricTable prints a line for each place and cgroup, and above the first the names of the columns;
// again where the metrics have changed. As in perf's, a separator follows each field.
func (c *csvLines) metricTable(b *strings.Builder, s Snapshot) {
	t := newMetricTable(s.Rows)
	if len(t.columns) == 0 {
		return
	}
	cgroups := hasGroups(s.Rows)
	if !slices.Equal(t.columns, c.columns) {
		c.columns = t.columns
		c.line(b, append(slices.Concat(c.heading(s, cgroups), t.columns), ""))
	}
	for _, l := range t.lines {
		fields := append(c.time(s), c.place(l.place)...)
		if cgroups {
			fields = append(fields, l.cgroup)
		}
		for _, col := range t.columns {
			v := ""
			if m, ok := l.values[col]; ok {
				v = fixed(m.Value, m.decimals())
			}
			fields = append(fields, v)
		}
		c.line(b, append(fields, ""))
	}
}

// heading names the columns before those of the metrics.
func (c *csvLines) heading(s Snapshot, cgroups bool) []string {
	var names []string
	if len(c.time(s)) > 0 {
		names = append(names, "time")
	}
	switch by := c.o.Aggregation; {
	case by == AggregateGlobal:
	case by == AggregateThread:
		names = append(names, "comm-pid")
	case by.countsCounters():
		names = append(names, places[by].heading, "ctrs")
	default:
		names = append(names, places[by].heading)
	}
	if cgroups {
		names = append(names, c.o.groupKey())
	}
	return names
}

// time is the first field with intervals.
func (c *csvLines) time(s Snapshot) []string {
	switch {
	case s.Summary && c.o.NoCSVSummary, !s.Summary && !c.o.Interval:
		return nil
	case s.Summary:
		return []string{"summary"}
	default:
		return []string{seconds(s.Time)}
	}
}

func (c *csvLines) place(p Place) []string {
	switch by := c.o.Aggregation; {
	case by == AggregateGlobal:
		return nil
	case by.countsCounters():
		return []string{p.ID, strconv.Itoa(p.Counters)}
	default:
		return []string{p.ID}
	}
}

func (c *csvLines) line(b *strings.Builder, fields []string) {
	for i, f := range fields {
		if i > 0 {
			b.WriteString(c.o.Separator)
		}
		b.WriteString(c.quote(f))
	}
	b.WriteByte('\n')
}

func (c *csvLines) quote(field string) string {
	field = printable.Text(field)
	if !strings.Contains(field, `"`) && !strings.Contains(field, c.o.Separator) {
		return field
	}
	return `"` + strings.ReplaceAll(field, `"`, `""`) + `"`
}
