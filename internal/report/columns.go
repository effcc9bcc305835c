package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/profile"
)

// column is a column of a table: a key, or a value of each event.
type column struct {
	title string
	key   *key

	name  string // of the key or the value
	width int    // minimum for one event
	share bool   // printed as a percentage
	mean  bool   // printed as the mean of a row's samples
	needs profile.Keys
	of    func(*value) uint64

	rank int // position of the column in the sort order of rows
}

// values are the columns that are not keys.
var values = []column{
	{name: "overhead_children", title: "Children", width: 8, share: true, of: func(v *value) uint64 { return v.total }},
	{name: "overhead", title: "Overhead", width: 8, share: true, of: func(v *value) uint64 { return v.self }},
	{name: "overhead_sys", title: "sys", width: 8, share: true, of: func(v *value) uint64 { return v.kernel }},
	{name: "overhead_us", title: "usr", width: 8, share: true, of: func(v *value) uint64 { return v.user }},
	{name: "overhead_guest_sys", title: "guest sys", width: 9, share: true, of: func(v *value) uint64 { return v.guestOS }},
	{name: "overhead_guest_us", title: "guest usr", width: 9, share: true, of: func(v *value) uint64 { return v.guest }},
	{name: "sample", title: "Samples", width: 12, of: func(v *value) uint64 { return v.samples }},
	{name: "period", title: "Period", width: 12, of: func(v *value) uint64 { return v.self }},
	{name: "weight1", title: "Weight1", width: 8, mean: true, needs: profile.Weight, of: func(v *value) uint64 { return v.weights[0] }},
	{name: "weight2", title: "Weight2", width: 8, mean: true, needs: profile.Weight, of: func(v *value) uint64 { return v.weights[1] }},
	{name: "weight3", title: "Weight3", width: 8, mean: true, needs: profile.Weight, of: func(v *value) uint64 { return v.weights[2] }},
}

// fieldNames maps fields to values. As sort keys, these names are those of keys.
var fieldNames = map[string]string{"ins_lat": "weight2", "retire_lat": "weight3", "p_stage_cyc": "weight3"}

// Fields returns the names of the columns that are not keys.
func Fields() []string {
	var names []string
	for _, v := range values {
		names = append(names, v.name)
	}
	return names
}

// dataTypeKeys are the keys of perf's profiles of data types.
var dataTypeKeys = []string{"type", "typeoff", "typecln"}

// isColumn reports whether there is a column with a name, whichever recording is shown.
func (o *Options) isColumn(name string) bool {
	_, isKey := o.findKey(name)
	return isKey || slices.ContainsFunc(values, func(v column) bool { return v.name == name })
}

// columns returns the columns in output order, each with its rank in the sort order of rows. An unknown name is an error.
func (o *Options) columns() ([]*column, error) {
	sorts := slices.Clone(o.Sort)
	fields := o.Fields
	if len(fields) == 0 {
		sorts = o.sortKeys()
		fields = append(o.defaultFields(), o.More...)
		overheads := []string{"overhead"}
		if o.Children {
			overheads = []string{"overhead_children", "overhead"}
		}
		sorts = append(overheads, sorts...)
	}
	if o.Parent != nil && !slices.Contains(sorts, "parent") {
		sorts = append(sorts, "parent")
	}
	var columns []*column
	find := func(name, option string) (*column, error) {
		c, err := o.newColumn(name, option)
		if err != nil {
			return nil, err
		}
		at := slices.IndexFunc(columns, func(known *column) bool { return known.name == c.name })
		if at >= 0 {
			return columns[at], nil
		}
		columns = append(columns, c)
		return c, nil
	}
	for _, name := range fields {
		if _, err := find(name, field); err != nil {
			return nil, err
		}
	}
	var ranked []*column
	rank := func(c *column) {
		if !slices.Contains(ranked, c) {
			c.rank, ranked = len(ranked), append(ranked, c)
		}
	}
	for _, name := range sorts {
		c, err := find(name, sortKey)
		if err != nil {
			return nil, err
		}
		rank(c)
	}
	for _, c := range columns {
		rank(c)
	}
	if o.Hierarchy { // as in perf, each key keeps its level
		return columns, nil
	}
	return o.elide(columns), nil
}

func (o *Options) defaultFields() []string {
	var fields []string
	if o.Children {
		fields = append(fields, "overhead_children")
	}
	fields = append(fields, "overhead")
	if o.Utilization {
		fields = append(fields, "overhead_sys", "overhead_us")
	}
	if o.Samples {
		fields = append(fields, "sample")
	}
	if o.Period {
		fields = append(fields, "period")
	}
	return fields
}

// What a name of a column is given for.
const (
	field   = "field"
	sortKey = "sort key"
)

func (o *Options) newColumn(name, option string) (*column, error) {
	if value := fieldNames[name]; value != "" && option == field && !o.Counted {
		name = value
	}
	if k, ok := o.findKey(name); ok {
		if k.branch && !o.Branches {
			return nil, fmt.Errorf("%s %q is for branches: it needs -b, and a recording of record -b", option, name)
		}
		return &column{name: k.name, title: k.title, key: k}, nil
	}
	at := slices.IndexFunc(values, func(v column) bool { return v.name == name })
	if at < 0 {
		known := append(Fields(), Keys()...)
		if slices.Contains(dataTypeKeys, name) {
			return nil, fmt.Errorf("%s %q: bperf does not look for types of data", option, name)
		}
		msg := fmt.Sprintf("%s %q: there is none of this name", option, name)
		if near := event.Nearest(name, known); len(near) > 0 {
			msg += fmt.Sprintf("; did you mean %q?", near[0])
		} else {
			msg += "; there are " + strings.Join(known, ", ")
		}
		return nil, fmt.Errorf("%s", msg)
	}
	c := values[at]
	if c.name == "overhead" && o.Children && len(o.Fields) == 0 && !o.Hierarchy {
		c.title = "Self"
	}
	return &c, nil
}

// elide removes the columns that are equal in all rows, unless no key would be left.
func (o *Options) elide(columns []*column) []*column {
	names := o.elided()
	left := slices.DeleteFunc(slices.Clone(columns), func(c *column) bool {
		_, elided := names[c.name]
		return elided
	})
	if !slices.ContainsFunc(left, func(c *column) bool { return c.key != nil }) {
		return columns
	}
	return left
}

// valueText returns a value of a row without blanks. position is the index of the event in table.events.
func (c *column) valueText(t *table, r *row, position int) string {
	v := &r.values[position]
	switch {
	case c.share:
		return fmt.Sprintf("%.2f", percent(c.of(v), t.base(position)))
	case c.mean:
		return fmt.Sprintf("%.1f", float64(c.of(v))/float64(max(1, v.samples)))
	}
	return strconv.FormatUint(c.of(v), 10)
}

// sortEvent returns the index in table.events of the only event whose values order rows, if Options.SortEvent is not 0.
func (t *table) sortEvent() int {
	if at := t.o.SortEvent; at > 0 && at < len(t.events) {
		return at
	}
	return 0
}

// compareRows orders two rows by a column: larger values come first, keys are in their own order.
func (c *column) compareRows(t *table, a, b *row) int {
	if c.key != nil {
		if c.key.compare != nil {
			return c.key.compare(t.p, &a.properties, &b.properties)
		}
		return cmp.Compare(c.key.text(t.p, &a.properties, 0), c.key.text(t.p, &b.properties, 0))
	}
	for i := range a.values {
		if t.o.SortEvent != 0 && i != t.sortEvent() {
			continue
		}
		if order := cmp.Compare(c.of(&b.values[i]), c.of(&a.values[i])); order != 0 {
			return order
		}
		if c.name == "overhead_children" && t.o.SortEvent == 0 {
			break // perf compares only the leader's values
		}
	}
	if c.name == "overhead_children" && a.thread == b.thread && t.o.CallGraph.Mode != NoGraph {
		// Callers come before their callees.
		if t.o.order() == CallerFirst {
			return cmp.Compare(b.depth, a.depth)
		}
		return cmp.Compare(a.depth, b.depth)
	}
	return 0
}
