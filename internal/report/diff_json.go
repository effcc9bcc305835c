package report

import "github.com/bperf/bperf/internal/profile"

// DiffJSON is a comparison of profiles as it is encoded as JSON.
type DiffJSON struct {
	Files   []string        `json:"files"`   // names of the recordings; the first is the baseline
	Compute Compute         `json:"compute"` // what comparison holds: delta-abs and delta: percentage points; ratio; wdiff
	Events  []diffEventJSON `json:"events"`
}

// diffEventJSON has the rows of an event in the order of the table.
type diffEventJSON struct {
	Name string        `json:"name"`
	Rows []diffRowJSON `json:"rows"` // the largest comparison first, those without one last
}

type diffRowJSON struct {
	Keys   map[string]string `json:"keys"`   // values of the sort keys, by their names
	Values []diffValueJSON   `json:"values"` // one per file
}

type diffValueJSON struct {
	Period     uint64   `json:"period"`               // sum of the periods of the row's samples, in the unit of the event
	Percent    float64  `json:"percent"`              // share of the event's samples
	Comparison *float64 `json:"comparison,omitempty"` // with the baseline; absent in the baseline, and if the row cannot be compared
}

// NewDiffJSON compares profiles as WriteDiff does.
func NewDiffJSON(profiles []*profile.Profile, names []string, o *Options, d Diff) (*DiffJSON, error) {
	all, err := compareEvents(profiles, o, d)
	if err != nil {
		return nil, err
	}
	object := &DiffJSON{Files: names, Compute: d.Compute}
	for i := range all {
		object.Events = append(object.Events, diffEventJSON{Name: all[i].event, Rows: all[i].json()})
	}
	return object, nil
}

func (c *comparison) json() []diffRowJSON {
	rows := []diffRowJSON{}
	for _, d := range c.rows() {
		row := diffRowJSON{Keys: map[string]string{}}
		at := 0
		for _, column := range c.tables[0].columns {
			if column.key != nil {
				row.Keys[column.name] = d.keys[at]
				at++
			}
		}
		for i := range c.tables {
			v := diffValueJSON{Period: d.periods[i], Percent: c.share(d, i)}
			if value, ok := c.value(d, i); ok && i > 0 {
				v.Comparison = &value
			}
			row.Values = append(row.Values, v)
		}
		rows = append(rows, row)
	}
	return rows
}
