package stat

// metricTable is a snapshot for --metric-only: one line per place and cgroup, one column per metric.
type metricTable struct {
	columns []string
	lines   []metricLine
}

type metricLine struct {
	place  Place
	cgroup string
	values map[string]shownMetric // by column
}

func newMetricTable(rows []Row, o *OutputOptions) metricTable {
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
			t.lines = append(t.lines, metricLine{place: r.Place, cgroup: r.group(), values: make(map[string]shownMetric)})
		}
		line := &t.lines[i]
		line.place.Counters = max(line.place.Counters, r.Place.Counters)
		for _, m := range o.metrics(&r) {
			column := m.column
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
