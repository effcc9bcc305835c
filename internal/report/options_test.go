package report

import (
	"strings"
	"testing"
)

// TestNeedsStacks checks that tables with call trees or callers request stacks: bperf does not read what a report does not need.
func TestNeedsStacks(t *testing.T) {
	for _, test := range []struct {
		name string
		o    Options
		want bool
	}{
		{"own code", Options{}, false},
		{"own code by thread", Options{Sort: []string{"pid", "sym"}, Fields: []string{"overhead"}}, false},
		{"call trees", Options{CallGraph: defaultCallGraph()}, true},
		{"with callees", Options{Children: true}, true},
		{"with a BPF program on the stack", Options{Filter: Filter{Programs: []string{"7"}}}, true},
		{"by a caller", Options{Sort: []string{"parent"}}, true},
		{"with a caller beside", Options{Fields: []string{"overhead", "parent"}}, true},
	} {
		if got := test.o.NeedsStacks(); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

// TestPlus adds keys and columns to the defaults.
func TestPlus(t *testing.T) {
	list := func(s string) []string { return strings.FieldsFunc(s, func(r rune) bool { return r == ',' }) }
	for _, tt := range []struct{ sort, fields, want string }{
		{"", "", "overhead comm dso symbol"},
		{"dso,cpu", "", "overhead dso cpu"},
		{"+cpu,pid", "", "overhead comm dso symbol cpu pid"},
		{"+dso", "", "overhead comm dso symbol"},
		{"", "+period,cpu", "overhead period cpu comm dso symbol"},
		{"dso", "+period", "overhead period dso"},
		{"dso", "period,dso", "period dso"},
	} {
		var o Options
		o.SetSort(list(tt.sort), nil)
		o.SetFields(list(tt.fields))
		columns, err := o.columns()
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, c := range columns {
			names = append(names, c.name)
		}
		if got := strings.Join(names, " "); got != tt.want {
			t.Errorf("-s %q -F %q: %s, want %s", tt.sort, tt.fields, got, tt.want)
		}
	}
	for _, keys := range []string{"+", "+nosuch", "comm,+cpu"} {
		var o Options
		o.SetSort(strings.Split(keys, ","), nil)
		if _, err := o.columns(); err == nil {
			t.Errorf("-s %s was accepted", keys)
		}
	}
}
