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

// NewCSV returns a printer of perf's separated values: one line per event, without a heading and without the times. A field that contains
// the separator or a quote is quoted as in RFC 4180.
func NewCSV(w io.Writer, o OutputOptions) Printer { return &csvLines{w: w, o: o} }

// CheckSeparator returns an error if fields could not be parsed with this separator.
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
		metrics := c.o.metrics(r)
		if len(metrics) == 0 || r.OnlyMetrics {
			c.line(b, append(append(fields, "", r.heading()), c.runFields(r)...))
		}
		for j, m := range metrics {
			if j > 0 || r.OnlyMetrics { // a separate line with only the metric
				fields = append(prefix, make([]string, len(fields)-len(prefix))...)
			}
			runs := c.runFields(r)
			if j > 0 {
				clear(runs)
			}
			c.line(b, slices.Concat(fields, []string{fixed(m.value, m.decimals), m.unit}, runs))
		}
	}
}

// heading returns the name of a group of metrics. It is a line's last field, as in perf.
func (r *Row) heading() string {
	if r.OnlyMetrics {
		return r.Name
	}
	return ""
}

// count returns a row's fields between the place and the metric. Those of a group of metrics are empty.
func (c *csvLines) count(r *Row, cgroups bool) []string {
	value, variance := r.absent(), ""
	if value == "" {
		value = fixed(r.printed(), r.decimals())
		variance = fixed(r.Variance, 2) + "%"
	}
	fields := []string{value, r.Event.Unit, r.Name}
	times := []string{strconv.FormatUint(r.Running, 10), fixed(r.share(), 2)}
	if r.OnlyMetrics {
		variance = ""
		clear(fields)
		clear(times)
	}
	if cgroups {
		fields = append(fields, r.group())
	}
	if c.runs > 1 {
		fields = append(fields, variance)
	}
	return append(fields, times...)
}

// runFields returns the fields of a BPF program, which end the line: how many runs were counted, the statistics of single runs, and why
// runs were dropped.
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

// metricTable prints a line for each place and cgroup. The names of the columns come before the first line, and again when the metrics
// change. As in perf's output, a separator follows each field.
func (c *csvLines) metricTable(b *strings.Builder, s Snapshot) {
	t := newMetricTable(s.Rows, &c.o)
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
				v = fixed(m.value, m.decimals)
			}
			fields = append(fields, v)
		}
		c.line(b, append(fields, ""))
	}
}

// heading returns the names of the columns in front of the metrics.
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

// time returns the first field, if there is one: the time of an interval, or "summary".
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
