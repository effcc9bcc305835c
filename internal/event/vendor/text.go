package vendor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A table as text is a line for each event, an empty line, and a line for each metric. Tabs separate the fields. Empty fields at the end of a
// line are left out.

// text returns the table as text.
func (t *Table) text() string {
	var b strings.Builder
	line := func(fields ...string) {
		b.WriteString(strings.TrimRight(strings.Join(fields, "\t"), "\t") + "\n")
	}
	for _, e := range t.events {
		line(e.Name, e.Terms, formatNumber(e.Period), e.PMU, formatScale(e.Scale, e.Unit), flags(e.PerPkg, "p")+flags(e.Deprecated, "d"),
			e.Errata, e.Compat)
	}
	b.WriteString("\n")
	for _, m := range t.metrics {
		line(m.Name, m.Expr, strings.Join(m.Groups, ";"), m.ScaleUnit, m.Threshold, m.PMU, m.Constraint, strings.Join(m.NoGroup, ";"),
			m.DefaultGroup, flags(m.PerPkg, "p")+flags(m.ShowEvents, "s"), m.AggregationMode, m.Compat)
	}
	return b.String()
}

func formatNumber(n uint64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(n, 10)
}

func formatScale(scale float64, unit string) string {
	if scale == 1 && unit == "" {
		return ""
	}
	return fmt.Sprint(scale, " ", unit)
}

func flags(set bool, letter string) string {
	if set {
		return letter
	}
	return ""
}

// parse appends the events and metrics in a table's text.
func (t *Table) parse(text string) error {
	end := 0 // of the lines of events
	if !strings.HasPrefix(text, "\n") {
		if end = strings.Index(text, "\n\n") + 1; end == 0 {
			return fmt.Errorf("the table has no metrics")
		}
	}
	events, metrics := text[:end], text[end:]
	t.events = slices.Grow(t.events, strings.Count(events, "\n"))
	t.metrics = slices.Grow(t.metrics, strings.Count(metrics, "\n")-1)
	for line := range strings.SplitSeq(events, "\n") {
		if line == "" {
			continue
		}
		e, err := parseEvent(line)
		if err != nil {
			return err
		}
		t.events = append(t.events, e)
	}
	for line := range strings.SplitSeq(metrics, "\n") {
		if line != "" {
			t.metrics = append(t.metrics, parseMetric(line))
		}
	}
	return nil
}

// fields returns the next field of a line at each call.
type fields string

func (f *fields) next() string {
	field, rest, _ := strings.Cut(string(*f), "\t")
	*f = fields(rest)
	return field
}

func (f *fields) list() []string {
	text := f.next()
	if text == "" {
		return nil
	}
	return strings.Split(text, ";")
}

func parseEvent(line string) (e Event, err error) {
	f := fields(line)
	e.Name, e.Terms = f.next(), f.next()
	if period := f.next(); period != "" {
		e.Period, err = strconv.ParseUint(period, 10, 64)
	}
	e.PMU, e.Scale = f.next(), 1
	if scale, unit, ok := strings.Cut(f.next(), " "); ok && err == nil {
		e.Unit = unit
		e.Scale, err = strconv.ParseFloat(scale, 64)
	}
	letters := f.next()
	e.PerPkg, e.Deprecated = strings.Contains(letters, "p"), strings.Contains(letters, "d")
	e.Errata, e.Compat = f.next(), f.next()
	if err != nil {
		return e, fmt.Errorf("event %s: %w", e.Name, err)
	}
	return e, nil
}

func parseMetric(line string) (m Metric) {
	f := fields(line)
	m.Name, m.Expr, m.Groups, m.ScaleUnit, m.Threshold = f.next(), f.next(), f.list(), f.next(), f.next()
	m.PMU, m.Constraint, m.NoGroup, m.DefaultGroup = f.next(), f.next(), f.list(), f.next()
	letters := f.next()
	m.PerPkg, m.ShowEvents = strings.Contains(letters, "p"), strings.Contains(letters, "s")
	m.AggregationMode, m.Compat = f.next(), f.next()
	return m
}
