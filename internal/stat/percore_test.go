package stat

import (
	"bytes"
	"strings"
	"testing"

	"github.com/bperf/bperf/internal/event"
)

// TestCoresAmongCPUs prints a core in a table of CPUs.
func TestCoresAmongCPUs(t *testing.T) {
	o := OutputOptions{Aggregation: AggregateNone}
	csv := o
	csv.Separator = ","
	rows := append(in("S0-D0-C0", 2, counts(t, "context-switches", 7)), in("CPU0", 1, counts(t, "page-faults", 8))...)
	rows[0].Place.Core = true
	for _, tt := range []struct {
		printer func(*bytes.Buffer) Printer
		want    string
	}{
		{func(b *bytes.Buffer) Printer { return NewText(b, o) },
			"S0-D0-C0                            7      context-switches\nCPU0                    8      page-faults\n"},
		{func(b *bytes.Buffer) Printer { return NewCSV(b, csv) }, "S0-D0-C0,7,,context-switches,1000000,100.00,,\nCPU0,8,,page-faults,"},
		{func(b *bytes.Buffer) Printer { return NewJSON(b, o) }, `{"core" : "S0-D0-C0", "counter-value" : "7.000000"`},
	} {
		var out bytes.Buffer
		if err := tt.printer(&out).Snapshot(Snapshot{Rows: rows}); err != nil || !strings.Contains(out.String(), tt.want) {
			t.Errorf("%v\n%s\nwant %s", err, out.String(), tt.want)
		}
	}
}

func TestNeedsTopology(t *testing.T) {
	for by, want := range map[Aggregation]bool{AggregateNone: true, AggregateGlobal: false, AggregateThread: false, AggregateSocket: true} {
		cfg := Config{Aggregation: by, Events: event.List{{Events: []*event.Event{{Name: "a"}, {Name: "b", PerCore: true}}}}}
		if got := cfg.needsTopology(); got != want {
			t.Errorf("%v: %v", by, got)
		}
	}
}
