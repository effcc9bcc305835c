package stat

import "strings"

// metricTable is a snapshot for --metric-only: one line per place and cgroup, one column per metric.
type metricTable struct {
	columns []string
	lines   []metricLine
}

type metricLine struct {
	place  Place
	cgroup string
	values map[string]Metric // by column
}

func newMetricTable(rows []Row) metricTable {
	type key struct{ place, cgroup string }
	var t metricTable
	lines := make(map[key]int)
	owner := make(map[string]string) // event of a column
	for _, r := range rows {
		at := key{r.Place.ID, r.group()}
		i, ok := lines[at]
		if !ok {
			i = len(t.lines)
			lines[at] = i
			t.lines = append(t.lines, metricLine{place: r.Place, cgroup: r.group(), values: make(map[string]Metric)})
		}
		line := &t.lines[i]
		line.place.Counters = max(line.place.Counters, r.Place.Counters)
		for _, m := range r.Metrics {
			column := m.column(r.Name)
			if of, taken := owner[column]; taken && of != r.Name {
				column += " (" + r.Name + ")" // cycles:u and cycles:k both have a frequency
			}
			if _, known := owner[column]; !known {
				owner[column] = r.Name
				t.columns = append(t.columns, column)
			}
			line.values[column] = m
		}
	}
	return t
}

// column returns the metric's heading. The heading includes the event's name where the unit alone is ambiguous.
func (m *Metric) column(event string) string {
	switch {
	case m.Kind == Rate:
		return event + m.Unit
	case strings.HasPrefix(m.Unit, "of "), strings.HasSuffix(m.Unit, "per run"):
		return event + " " + m.Unit
	default:
		return m.Unit
	}
}

// decimals returns the number of decimals to print.
func (m *Metric) decimals() int {
	if m.Kind == Ratio || m.Kind == Percent {
		return 2
	}
	return 3
}
