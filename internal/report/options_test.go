package report

import "testing"

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
