package vendor

import (
	"slices"
	"strings"
)

// With returns a table that also has the events and metrics of another one, which replace those of the same name on the same PMU. If an
// event is encoded as the one that it replaces and has neither scale nor unit, it keeps those: perfmon's files do not have them.
func (t *Table) With(more *Table) *Table {
	type key struct{ pmu, name, compat string }
	have := map[key]int{}
	merged := &Table{model: t.Model()}
	if t != nil {
		merged.events, merged.metrics = slices.Clone(t.events), slices.Clone(t.metrics)
	}
	for i, e := range merged.events {
		have[key{e.PMU, e.Name, e.Compat}] = i
	}
	for _, e := range more.events {
		k := key{e.PMU, e.Name, e.Compat}
		i, ok := have[k]
		if !ok {
			have[k] = len(merged.events)
			merged.events = append(merged.events, e)
			continue
		}
		if old := merged.events[i]; e.Terms == old.Terms && e.Scale == 1 && e.Unit == "" {
			e.Scale, e.Unit = old.Scale, old.Unit
		}
		merged.events[i] = e
	}
	clear(have)
	for _, m := range more.metrics {
		have[key{m.PMU, strings.ToLower(m.Name), m.Compat}] = 0
	}
	merged.metrics = slices.DeleteFunc(merged.metrics, func(m Metric) bool {
		_, replaced := have[key{m.PMU, strings.ToLower(m.Name), m.Compat}]
		return replaced
	})
	merged.metrics = append(merged.metrics, more.metrics...)
	merged.sort()
	return merged
}
