package stat

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bperf/bperf/internal/metric"
	"github.com/bperf/bperf/internal/printable"
)

const columnWidth = 20 // of a metric, at least

// metricTable prints one line per place and cgroup, below the names of the metrics.
func (t *text) metricTable(b *strings.Builder, s Snapshot, interval bool) {
	table := newMetricTable(s.Rows, &t.o)
	if len(table.columns) == 0 {
		return
	}
	cgroups := hasGroups(s.Rows)
	again := t.o.IntervalClear || t.snapshots%headingEvery == 0
	if !interval || again || !slices.Equal(table.columns, t.columns) {
		t.columnHeading(b, table.columns, interval, cgroups)
	}
	t.columns = table.columns
	t.metrics = true
	for _, l := range table.lines {
		t.rows = true
		if interval {
			fmt.Fprintf(b, "%*s ", timeWidth, seconds(s.Time))
		}
		b.WriteString(t.place(l.place))
		if cgroups {
			fmt.Fprintf(b, "%-*s ", cgroupWidth, printable.Text(l.cgroup))
		}
		for _, c := range table.columns {
			v, judgement := "", metric.Unjudged
			if m, ok := l.values[c]; ok {
				v, judgement = t.number(m.value, m.decimals)+m.suffix+m.scaledMark(), m.judgement
			}
			b.WriteString(t.colored(judgement, fmt.Sprintf("%*s", width(c), v)) + " ")
		}
		b.WriteByte('\n')
	}
}

func (t *text) columnHeading(b *strings.Builder, columns []string, interval, cgroups bool) {
	if interval {
		b.WriteString(t.intervalHeading() + " ")
	} else {
		b.WriteString(strings.Repeat(" ", utf8.RuneCountInString(t.place(Place{}))))
	}
	if cgroups {
		fmt.Fprintf(b, "%-*s ", cgroupWidth, t.o.groupKey())
	}
	for _, c := range columns {
		fmt.Fprintf(b, "%*s ", width(c), printable.Text(c))
	}
	b.WriteByte('\n')
}

func width(column string) int { return max(columnWidth, utf8.RuneCountInString(column)) }

// scaledMark returns the mark behind a metric that is an estimate. A metric is marked even if its row is, because the row's share belongs to
// only one of the metric's events.
func (m *shownMetric) scaledMark() string {
	if m.scaled {
		return " (scaled)"
	}
	return ""
}
