package stat

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/bperf/bperf/internal/metric"
	"github.com/bperf/bperf/internal/printable"
)

// These are perf's column widths, because some programs cut its lines at fixed positions.
const (
	timeWidth   = 16
	valueWidth  = 18
	unitWidth   = 4 // at least
	eventWidth  = 32
	cgroupWidth = 16
	commWidth   = 16
	tidWidth    = 7

	headingEvery = 25 // intervals between two headings
	clearScreen  = "\x1b[H\x1b[2J"
)

// places holds the heading and the width of the column of places.
var places = map[Aggregation]struct {
	heading string
	width   int
}{
	AggregateNone:    {"cpu", 6},
	AggregateCore:    {"core", 18},
	AggregateCluster: {"cluster", 20},
	AggregateCache:   {"cache", 22},
	AggregateDie:     {"die", 12},
	AggregateSocket:  {"socket", 6},
	AggregateNode:    {"node", 6},
}

type text struct {
	w io.Writer
	o OutputOptions

	outcome   Outcome // as passed to Header
	snapshots int
	rows      bool // rows were printed
	summary   bool // the summary was printed
	probesOf  bool // the counts of the probes were printed
	reasons   reasons
	metrics   bool     // with MetricOnly: a metric was printed
	columns   []string // the columns of the last heading
}

// NewText returns a printer of a table for people, in perf's layout.
func NewText(w io.Writer, o OutputOptions) Printer { return &text{w: w, o: o} }

// Header prints the heading, unless intervals come first: they have their own.
func (t *text) Header(outcome Outcome) error {
	*t = text{w: t.w, o: t.o, outcome: outcome}
	if t.o.Interval {
		return nil
	}
	return t.write(t.subject())
}

func (t *text) Snapshot(s Snapshot) error {
	t.reasons.add(s.Rows)
	var b strings.Builder
	interval := t.o.Interval && !s.Summary
	t.summary = t.summary || s.Summary
	if s.Summary {
		b.WriteString(t.subject())
	}
	lines := t.table
	if t.o.MetricOnly {
		lines = t.metricTable
	}
	if interval && t.o.IntervalClear {
		b.WriteString(clearScreen)
	}
	lines(&b, s, interval)
	if !interval && !t.o.MetricOnly {
		t.runTable(&b, s.Rows)
		t.probes(&b, s.Rows)
		if t.o.Histogram {
			histograms(&b, s.Rows)
		}
	}
	t.snapshots++
	return t.write(b.String())
}

// End prints why events have no count, and the times. After intervals it prints the times only if there was a summary.
func (t *text) End(outcome Outcome) error {
	notes := t.reasons.lines()
	if t.o.MetricOnly && t.snapshots > 0 && !t.metrics {
		notes = append(notes, "No metric can be computed from these events.")
	}
	timed := !t.o.Interval || t.summary
	var b strings.Builder
	if t.rows && (timed || len(notes) > 0) {
		b.WriteByte('\n')
	}
	for _, n := range notes {
		fmt.Fprintf(&b, " %s\n", printable.Text(n))
	}
	if len(notes) > 0 {
		b.WriteByte('\n')
	}
	switch {
	case !timed:
	case len(outcome.Elapsed) > 1:
		t.repeatedTimes(&b, outcome)
	default:
		times(&b, outcome)
	}
	return t.write(b.String())
}

// write writes lines without trailing blanks.
func (t *text) write(lines string) error {
	var b bytes.Buffer
	for l := range strings.Lines(lines) {
		b.WriteString(strings.TrimRight(l, " \n"))
		b.WriteByte('\n')
	}
	_, err := t.w.Write(b.Bytes())
	return err
}

func (t *text) subject() string {
	runs := ""
	if t.outcome.Runs > 1 {
		runs = fmt.Sprintf(" (%d runs)", t.outcome.Runs)
	}
	return fmt.Sprintf("\n Performance counter stats for %s%s:\n\n", printable.Text(t.outcome.Subject), runs)
}

// table prints a line for each row.
func (t *text) table(b *strings.Builder, s Snapshot, interval bool) {
	unit := unitWidth
	for i := range s.Rows {
		unit = max(unit, utf8.RuneCountInString(s.Rows[i].unit()))
	}
	if interval && (t.o.IntervalClear || t.snapshots%headingEvery == 0) {
		fmt.Fprintf(b, "%s %*s %*s events\n", t.intervalHeading(), valueWidth, "counts", unit, "unit")
	}
	cgroups := hasGroups(s.Rows)
	for i := range s.Rows {
		r := &s.Rows[i]
		if t.o.hidden(r) || t.o.Defaults && r.Err != nil {
			continue
		}
		t.rows = true
		prefix := t.place(r.Place)
		if interval {
			prefix = fmt.Sprintf("%*s %s", timeWidth, seconds(s.Time), prefix)
		}
		fmt.Fprintf(b, "%s%*s %-*s %-*s", prefix, valueWidth, t.value(r), unit, printable.Text(r.unit()), eventWidth, printable.Text(r.Name))
		indent := valueWidth + unit + eventWidth + 2
		if cgroups {
			fmt.Fprintf(b, " %-*s", cgroupWidth, printable.Text(r.group()))
			indent += cgroupWidth + 1
		}
		t.afterEvent(b, r, prefix+strings.Repeat(" ", indent))
		b.WriteByte('\n')
	}
}

// afterEvent prints what follows the event: its metrics, the standard error, and the share of an estimate.
func (t *text) afterEvent(b *strings.Builder, r *Row, indent string) {
	metrics := t.o.metrics(r)
	width := t.o.Compat.metricWidth()
	for i, m := range metrics {
		if i > 0 {
			fmt.Fprintf(b, "\n%s", indent)
		}
		b.WriteString(t.colored(m.judgement, fmt.Sprintf("%-*s", width, printable.Text(m.text)+m.scaledMark())))
	}
	if len(metrics) == 0 {
		fmt.Fprintf(b, "%*s", width, "")
	}
	if r.absent() != "" || r.OnlyMetrics {
		return
	}
	if r.Variance > 0 && finite(r.Variance) {
		fmt.Fprintf(b, "  ( +-%6.2f%% )", r.Variance)
	}
	r.scaledText(b)
}

// colored returns the text of a metric in the color of what its threshold says.
func (t *text) colored(j metric.Judgement, s string) string {
	color := map[metric.Judgement]string{metric.Good: "\x1b[32m", metric.Bad: "\x1b[31m"}[j]
	if !t.o.Color || color == "" {
		return s
	}
	return color + s + "\x1b[m"
}

// scaledText prints, for an estimate, the share of the time in which the event was counted.
func (r *Row) scaledText(b *strings.Builder) {
	if r.Scaled() {
		fmt.Fprintf(b, "  (%.2f%%)", r.share())
	}
}

// value returns the row's value, or the text that stands in its place.
func (t *text) value(r *Row) string {
	if r.OnlyMetrics {
		return ""
	}
	if a := r.absent(); a != "" {
		return a
	}
	return t.number(r.printed(), r.decimals())
}

func (t *text) number(v float64, decimals int) string {
	s := fixed(v, decimals)
	if !t.o.BigNum {
		return s
	}
	return printable.Thousands(s)
}

// place returns the text that rows of a part of the target begin with.
func (t *text) place(p Place) string {
	id := printable.Text(p.ID)
	switch by := t.o.Aggregation; {
	case by == AggregateGlobal:
		return ""
	case by == AggregateThread:
		comm, tid := id, ""
		if i := strings.LastIndexByte(id, '-'); i >= 0 {
			comm, tid = id[:i], id[i+1:]
		}
		return fmt.Sprintf("%*s-%-*s ", commWidth, comm, tidWidth, tid)
	case by.countsCounters():
		return fmt.Sprintf("%-*s %4d ", places[by].width, id, p.Counters)
	case p.Core:
		return fmt.Sprintf("%-*s ", places[AggregateCore].width, id)
	default:
		return fmt.Sprintf("%-*s ", places[by].width, id)
	}
}

// intervalHeading returns the heading above the times and places of intervals.
func (t *text) intervalHeading() string {
	heading := fmt.Sprintf("#%*s", timeWidth-1, "time")
	switch by := t.o.Aggregation; {
	case by == AggregateGlobal:
		return heading
	case by == AggregateThread:
		return fmt.Sprintf("%s %*s-%-*s", heading, commWidth, "comm", tidWidth, "pid")
	case by.countsCounters():
		return fmt.Sprintf("%s %-*s ctrs", heading, places[by].width, places[by].heading)
	default:
		return fmt.Sprintf("%s %-*s", heading, places[by].width, places[by].heading)
	}
}
