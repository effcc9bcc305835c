package vendor

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWith(t *testing.T) {
	text := &Text{Brief: "of a file"}
	base := New([]Event{
		{Name: "kept", Terms: "event=1", Scale: 1},
		{Name: "replaced", Terms: "event=2", Scale: 1},
		{Name: "same", PMU: "uncore_imc", Terms: "event=3", Scale: 64, Unit: "Bytes"},
		{Name: "other", PMU: "uncore_imc", Terms: "event=3", Scale: 64, Unit: "Bytes"},
	}, []Metric{{Name: "Ratio", Expr: "1"}, {Name: "ratio", Expr: "2", PMU: "cpu_atom"}, {Name: "kept", Expr: "3"}})
	base.model = "model"
	more := New([]Event{
		{Name: "replaced", Terms: "event=9", Scale: 1, Text: text},
		{Name: "new", Terms: "event=8", Scale: 1},
		{Name: "same", PMU: "uncore_imc", Terms: "event=3", Scale: 1, PerPkg: true},
		{Name: "other", PMU: "uncore_imc", Terms: "event=4", Scale: 1},
	}, []Metric{{Name: "ratio", Expr: "9"}, {Name: "added", Expr: "8"}})
	want := &Table{"model", []Event{
		{Name: "kept", Terms: "event=1", Scale: 1},
		{Name: "new", Terms: "event=8", Scale: 1},
		{Name: "replaced", Terms: "event=9", Scale: 1, Text: text},
		{Name: "other", PMU: "uncore_imc", Terms: "event=4", Scale: 1},
		{Name: "same", PMU: "uncore_imc", Terms: "event=3", Scale: 64, Unit: "Bytes", PerPkg: true},
	}, []Metric{{Name: "added", Expr: "8"}, {Name: "kept", Expr: "3"}, {Name: "ratio", Expr: "9"}, {Name: "ratio", Expr: "2", PMU: "cpu_atom"}}}
	if diff := cmp.Diff(want, base.With(more), cmp.AllowUnexported(Table{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	var none *Table
	if diff := cmp.Diff(more, none.With(more), cmp.AllowUnexported(Table{})); diff != "" {
		t.Errorf("with a nil table: (-want +got)\n%s", diff)
	}
	if e, _ := base.Event("", "replaced"); e.Terms != "event=2" {
		t.Error("With changed the table")
	}
}
