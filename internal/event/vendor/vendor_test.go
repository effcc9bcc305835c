package vendor

import (
	"slices"
	"testing"
)

func TestTable(t *testing.T) {
	table := New(
		[]Event{{Name: "b", Terms: "event=2"}, {Name: "a", PMU: "uncore_cha", Terms: "event=3"}, {Name: "a", Terms: "event=1"}},
		[]Metric{{Name: "IPC", PMU: "cpu_core"}, {Name: "CPI"}, {Name: "ipc", PMU: "cpu_atom"}})
	for _, test := range []struct{ pmu, name, terms string }{
		{"", "a", "event=1"}, {"", "B", "event=2"}, {"uncore_cha", "a", "event=3"}, {"uncore_cha", "b", ""}, {"cpu", "a", ""}, {"", "", ""},
	} {
		if got, ok := table.Event(test.pmu, test.name); got.Terms != test.terms || ok != (test.terms != "") {
			t.Errorf("%s/%s/: got %q, %v; want %q", test.pmu, test.name, got.Terms, ok, test.terms)
		}
	}
	var names []string
	for e := range table.Events("") {
		names = append(names, e.Name)
	}
	if want := []string{"a", "b"}; !slices.Equal(names, want) {
		t.Errorf("got events %v, want %v", names, want)
	}
	if got, want := table.PMUs(), []string{"", "uncore_cha"}; !slices.Equal(got, want) {
		t.Errorf("got PMUs %q, want %q", got, want)
	}
	if got := table.Metric("Ipc"); len(got) != 2 || got[0].PMU != "cpu_atom" || got[1].PMU != "cpu_core" {
		t.Errorf("got %+v, want ipc of both kinds of core", got)
	}
	if got := table.Metric("x"); len(got) != 0 {
		t.Errorf("got %+v for a metric that does not exist", got)
	}
}

func TestNilTable(t *testing.T) {
	var table *Table
	if _, ok := table.Event("", "a"); ok || table.Metric("a") != nil || table.PMUs() != nil {
		t.Error("a nil table has something")
	}
	for range table.Events("") {
		t.Error("a nil table has events")
	}
	for range table.Metrics() {
		t.Error("a nil table has metrics")
	}
}
