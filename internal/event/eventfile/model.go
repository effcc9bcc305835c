// Package eventfile reads the JSON files in which the vendors of CPUs describe events and metrics: those of the kernel's
// tools/perf/pmu-events, and those of Intel's perfmon (https://github.com/intel/perfmon).
package eventfile

import (
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/bperf/bperf/internal/event/vendor"
)

// Standard has the entries that models of an architecture refer to with ArchStdEvent, by name in lower case.
type Standard map[string]Entry

// Add adds entries.
func (s Standard) Add(entries []Entry) {
	for _, e := range entries {
		for _, key := range []string{"EventName", "MetricName"} {
			if e[key] != "" {
				s[strings.ToLower(e[key])] = e
			}
		}
	}
}

// complete returns an entry with what it takes from the architecture's entry.
func (s Standard) complete(e Entry) (Entry, error) {
	name := e["ArchStdEvent"]
	if name == "" {
		return e, nil
	}
	of, ok := s[strings.ToLower(name)]
	if !ok {
		return nil, fmt.Errorf("the architecture has no event %.40q", name)
	}
	whole := maps.Clone(of)
	maps.Copy(whole, e)
	return whole, nil
}

// Model is what the files have of a CPU model, or of all.
type Model struct {
	Events  []vendor.Event
	Metrics []vendor.Metric
}

// Add adds what an entry describes, if anything.
func (m *Model) Add(e Entry, std Standard) error {
	e, err := std.complete(e)
	if err != nil {
		return err
	}
	if e.isEvent() {
		event, err := e.event()
		if err != nil {
			return fmt.Errorf("event %.60q: %w", e["EventName"], err)
		}
		m.Events = append(m.Events, event)
	}
	if e.isMetric() {
		metric, err := e.metric()
		if err != nil {
			return fmt.Errorf("metric %.60q: %w", e["MetricName"], err)
		}
		m.Metrics = append(m.Metrics, metric)
	}
	return nil
}

// Table returns the model's table. Of events with the same name on the same PMU the first counts, as in perf.
func (m *Model) Table() *vendor.Table {
	type key struct{ pmu, name, compat string }
	seen := map[key]bool{}
	m.Events = slices.DeleteFunc(m.Events, func(e vendor.Event) bool {
		k := key{e.PMU, e.Name, e.Compat}
		again := seen[k]
		seen[k] = true
		return again
	})
	return vendor.New(m.Events, m.Metrics)
}

// Limits of a mapfile.csv, because each pattern is compiled. The kernel's and perfmon's have 300 rows at most.
const (
	maxRows    = 4096
	maxPattern = 255 // bytes
)

// Row is a row of a mapfile.csv: which files are for which CPUs.
type Row struct {
	vendor.CPU        // Model is a directory of files in the kernel's map, and the path of a file in perfmon's
	Type       string // core, uncore …
	Role       string // in perfmon's map, the kind of cores of a hybrid CPU: Core, Atom, LowPower_Atom
}

// ReadMap reads a mapfile.csv of the kernel's or of perfmon's. They have a pattern of CPUs, a version, a directory or file, and a type;
// perfmon's has the role of the cores in its seventh column.
func ReadMap(file io.Reader) ([]Row, error) {
	const role = 6
	r := csv.NewReader(file)
	r.Comment, r.FieldsPerRecord = '#', -1
	var rows []Row
	for {
		fields, err := r.Read()
		switch {
		case err == io.EOF:
			return rows, nil
		case err != nil:
			return nil, err
		case len(fields) < 4:
			return nil, fmt.Errorf("a row has %d columns, not 4 or more: %.60q", len(fields), strings.Join(fields, ","))
		case strings.HasPrefix(fields[0], "Family"):
			continue
		case len(fields[0]) > maxPattern || len(rows) == maxRows:
			return nil, fmt.Errorf("it has more than %d rows, or a pattern of more than %d bytes", maxRows, maxPattern)
		}
		row := Row{CPU: vendor.CPU{Pattern: fields[0], Model: fields[2]}, Type: fields[3]}
		if len(fields) > role {
			row.Role = fields[role]
		}
		rows = append(rows, row)
	}
}
