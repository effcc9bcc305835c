package event

import (
	"errors"
	"io/fs"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Parse accepts every event that Describe returns.
func TestDescribeParses(t *testing.T) {
	for _, name := range []string{"hybrid", "amd", "arm64", "arm64-one"} {
		m := fake(t, name)
		kinds := map[Kind]bool{}
		for _, d := range describe(t, m) {
			kinds[d.Kind] = true
			if d.Kind == PMUEvent && d.Name == "arm_cmn/watchpoint_up/" {
				continue // needs values
			}
			for _, spelling := range append([]string{d.Name}, d.Aliases...) {
				list, err := m.Parse(spelling)
				if d.Syntax == (err == nil) {
					t.Errorf("%s: %s: %v", name, spelling, err)
				}
				if d.Syntax || err != nil {
					continue
				}
				e := list[0].Events[0]
				if e.Scale != d.Scale || e.Unit != d.Unit {
					t.Errorf("%s: %s is described with %g %s, parsed with %g %s", name, spelling, d.Scale, d.Unit, e.Scale, e.Unit)
				}
			}
		}
		for kind := Hardware; kind < Tracepoint; kind++ {
			if !kinds[kind] {
				t.Errorf("%s: nothing of kind %v is described", name, kind)
			}
		}
	}
}

func TestDescribeMergesBoxes(t *testing.T) {
	var got []string
	for _, d := range describe(t, fake(t, "hybrid")) {
		if d.PMU == "uncore_imc_free_running" || d.PMU == "uncore_cbox" {
			got = append(got, d.Name)
		}
	}
	want := []string{"uncore_cbox/clockticks/", "uncore_imc_free_running/data_read/",
		"uncore_imc_free_running/data_total/", "uncore_imc_free_running/data_write/"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestTracepoints(t *testing.T) {
	names, err := fake(t, "hybrid").Tracepoints()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.IsSorted(names) || len(names) != 19 || names[0] != "ftrace:function" || names[1] != "irq:irq_handler_entry" {
		t.Errorf("got %d: %v", len(names), names)
	}
	var missing *tracefsError
	if _, err := fake(t, "arm64").Tracepoints(); !errors.As(err, &missing) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func describe(t *testing.T, m *Machine) []Description {
	t.Helper()
	all, err := m.Describe()
	if err != nil {
		t.Fatal(err)
	}
	return all
}
