package stat

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/event/vendor"
	"github.com/bperf/bperf/internal/metric"
)

// intelSysfs is a machine with the topdown events of an Intel CPU, and with two boxes of an uncore PMU.
var intelSysfs = fstest.MapFS{
	"cpu/type":                      {Data: []byte("4\n")},
	"cpu/format/event":              {Data: []byte("config:0-7\n")},
	"cpu/format/umask":              {Data: []byte("config:8-15\n")},
	"cpu/events/slots":              {Data: []byte("event=0x00,umask=0x4\n")},
	"cpu/events/topdown-retiring":   {Data: []byte("event=0x00,umask=0x80\n")},
	"cpu/events/topdown-bad-spec":   {Data: []byte("event=0x00,umask=0x81\n")},
	"cpu/events/topdown-fe-bound":   {Data: []byte("event=0x00,umask=0x82\n")},
	"cpu/events/stalls":             {Data: []byte("event=0xa3\n")},
	"uncore_cha_0/type":             {Data: []byte("20\n")},
	"uncore_cha_0/cpumask":          {Data: []byte("0\n")},
	"uncore_cha_0/format/event":     {Data: []byte("config:0-7\n")},
	"uncore_cha_0/events/ticks":     {Data: []byte("event=0x00\n")},
	"uncore_cha_0/events/occupancy": {Data: []byte("event=0x36\n")},
	"uncore_cha_1/type":             {Data: []byte("21\n")},
	"uncore_cha_1/cpumask":          {Data: []byte("0\n")},
	"uncore_cha_1/format/event":     {Data: []byte("config:0-7\n")},
	"uncore_cha_1/events/ticks":     {Data: []byte("event=0x00\n")},
	"uncore_cha_1/events/occupancy": {Data: []byte("event=0x36\n")},
}

// vendorMetricsOf are metrics in the form of those of vendors.
var vendorMetricsOf = []vendor.Metric{
	{Name: "ipc2", Expr: "instructions / cycles", Threshold: "ipc2 < 1"},
	{Name: "retiring", Expr: `topdown\-retiring / (topdown\-retiring + topdown\-bad\-spec)`, ScaleUnit: "100%", Threshold: "retiring > 0.7",
		Groups: []string{"TopdownL1"}, NoGroup: []string{"TopdownL1"}},
	{Name: "frontend", Expr: `topdown\-fe\-bound / (topdown\-fe\-bound + topdown\-retiring)`, ScaleUnit: "100%", Groups: []string{"TopdownL1"},
		NoGroup: []string{"TopdownL1"}},
	{Name: "stalled", Expr: "stalls / cycles", Groups: []string{"TopdownL1"}, NoGroup: []string{"TopdownL1"}},
	{Name: "absent", Expr: "nosuch / cycles", Groups: []string{"TopdownL1"}},
	{Name: "frequency", Expr: `uncore_cha@ticks@ / source_count(uncore_cha@ticks@) / 1e9 / duration_time`, ScaleUnit: "1GHz"},
	{Name: "occupancy", Expr: `uncore_cha@occupancy@ / uncore_cha@ticks@ + 0 * cycles`},
	{Name: "clocked", Expr: `cpu\-clock / instructions`},
	{Name: "apart", Expr: "instructions / cycles / stalls", Constraint: "NO_GROUP_EVENTS"},
}

// defaultMetricsOf are metrics of sessions without named events, of a kind of core and in a second group.
var defaultMetricsOf = []vendor.Metric{
	{Name: "retiring", Expr: `topdown\-retiring / slots`, ScaleUnit: "100%", Threshold: "retiring > 0.7", Groups: []string{"Default", "TopdownL1"},
		DefaultGroup: "TopdownL1", NoGroup: []string{"Default"}},
	{Name: "speculation", Expr: `topdown\-bad\-spec / slots`, ScaleUnit: "100%", Groups: []string{"Default"}, DefaultGroup: "TopdownL1"},
	{Name: "deeper", Expr: `topdown\-fe\-bound / slots`, Groups: []string{"Default"}, DefaultGroup: "TopdownL2", PMU: "cpu"},
	{Name: "idle", Expr: `stalls / slots`, Groups: []string{"Default"}, DefaultGroup: "TopdownL2"},
	{Name: "shown", Expr: "instructions / cycles", Groups: []string{"Default"}, DefaultGroup: "TopdownL1", ShowEvents: true},
	{Name: "ungrouped", Expr: "instructions / cycles", Groups: []string{"Default"}},
	{Name: "absent", Expr: "nosuch / cycles", Groups: []string{"Default"}, DefaultGroup: "TopdownL1"},
	{Name: "other", Expr: "instructions / cycles", Groups: []string{"TopdownL1"}, DefaultGroup: "TopdownL1"},
}

// defaultRows returns rows of a clock and of default metrics, on two CPUs, after the metrics are computed.
func defaultRows(t *testing.T) []Row {
	t.Helper()
	m := event.NewMachine(intelSysfs, nil)
	facts := &metric.Facts{HasEvent: func(name string) bool { _, err := m.Parse(name); return err == nil }}
	s, err := metric.NewCatalog(defaultMetricsOf, facts).SelectDefaults(metric.Options{})
	if err != nil {
		t.Fatal(err)
	}
	clock, err := m.Parse("cpu-clock")
	if err != nil {
		t.Fatal(err)
	}
	v := NewDefaultMetrics(facts)
	list, err := v.Add(s, 1, m.Parse)
	if err != nil {
		t.Fatal(err)
	}
	rows := vendorRows(append(clock, list...), map[string]float64{"cpu-clock": 2e6, "slots": 1000, "topdown-retiring": 750, "topdown-bad-spec": 0,
		"topdown-fe-bound": 500})
	for i := range rows {
		if rows[i].Name == "stalls" {
			rows[i].Total = count.Total{Enabled: 1e6} // it was never on a counter
		}
	}
	other := slices.Clone(rows)
	for i := range other {
		if other[i].Name == "topdown-retiring" {
			other[i].Value, other[i].Running = 250, 5e5
		}
	}
	return withMetrics(append(in("CPU0", 1, rows), in("CPU1", 1, other)...), v, time.Millisecond)
}

// TestDefaultMetrics prints the metrics of a session without named events: by group, without the counts of their events.
func TestDefaultMetrics(t *testing.T) {
	for form, c := range map[string]struct {
		printer func(io.Writer, OutputOptions) Printer
		want    string
	}{
		"text": {NewText, `
 Performance counter stats for :

CPU0                 2.00 msec cpu-clock                        #      2.0 CPUs  CPUs_utilized
CPU1                 2.00 msec cpu-clock                        #      2.0 CPUs  CPUs_utilized
CPU0                           TopdownL1                        #     75.0 %  retiring
CPU0                                                            #      0.0 %  speculation
CPU1                           TopdownL1                        #     25.0 %  retiring (scaled)
CPU1                                                            #      0.0 %  speculation
CPU0                           TopdownL2 (cpu)                  #     0.50 deeper
CPU1                           TopdownL2 (cpu)                  #     0.50 deeper
`},
		"CSV": {NewCSV, `CPU0,2.00,msec,cpu-clock,1000000,100.00,2.0,CPUs  CPUs_utilized
CPU1,2.00,msec,cpu-clock,1000000,100.00,2.0,CPUs  CPUs_utilized
CPU0,,,,,,,TopdownL1
CPU0,,,,,,75.0,%  retiring
CPU0,,,,,,0.0,%  speculation
CPU1,,,,,,,TopdownL1
CPU1,,,,,,25.0,%  retiring
CPU1,,,,,,0.0,%  speculation
CPU0,,,,,,,TopdownL2 (cpu)
CPU0,,,,,,0.50,deeper
CPU1,,,,,,,TopdownL2 (cpu)
CPU1,,,,,,0.50,deeper
`},
		"JSON": {NewJSON, `{"cpu" : "0", "counter-value" : "2.000000", "unit" : "msec", "event" : "cpu-clock", "event-runtime" : 1000000, "pcnt-running" : 100.00, "metric-value" : "2.000000", "metric-unit" : "CPUs  CPUs_utilized"}
{"cpu" : "1", "counter-value" : "2.000000", "unit" : "msec", "event" : "cpu-clock", "event-runtime" : 1000000, "pcnt-running" : 100.00, "metric-value" : "2.000000", "metric-unit" : "CPUs  CPUs_utilized"}
{"cpu" : "0", "event-runtime" : 1000000, "pcnt-running" : 100.00, "metricgroup" : "TopdownL1"}
{"cpu" : "0", "metric-value" : "75.000000", "metric-unit" : "%  retiring", "metric-threshold" : "bad"}
{"cpu" : "0", "metric-value" : "0.000000", "metric-unit" : "%  speculation"}
{"cpu" : "1", "event-runtime" : 1000000, "pcnt-running" : 100.00, "metricgroup" : "TopdownL1"}
{"cpu" : "1", "metric-value" : "25.000000", "metric-unit" : "%  retiring", "metric-threshold" : "good"}
{"cpu" : "1", "metric-value" : "0.000000", "metric-unit" : "%  speculation"}
{"cpu" : "0", "event-runtime" : 1000000, "pcnt-running" : 100.00, "metricgroup" : "TopdownL2 (cpu)"}
{"cpu" : "0", "metric-value" : "0.500000", "metric-unit" : "deeper"}
{"cpu" : "1", "event-runtime" : 1000000, "pcnt-running" : 100.00, "metricgroup" : "TopdownL2 (cpu)"}
{"cpu" : "1", "metric-value" : "0.500000", "metric-unit" : "deeper"}
`},
	} {
		var b bytes.Buffer
		p := c.printer(&b, OutputOptions{Aggregation: AggregateNone, HideZero: true, Separator: ","})
		if err := p.Header(Outcome{Runs: 1}); err != nil {
			t.Fatal(err)
		}
		if err := p.Snapshot(Snapshot{Rows: defaultRows(t)}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, b.String()); diff != "" {
			t.Errorf("%s: -want +got:\n%s", form, diff)
		}
	}
}

// selected returns the metrics of names, and the events that they need.
func selected(t testing.TB, o metric.Options, names ...string) (*VendorMetrics, event.List, []string) {
	t.Helper()
	m := event.NewMachine(intelSysfs, nil)
	facts := &metric.Facts{HasEvent: func(name string) bool { _, err := m.Parse(name); return err == nil }}
	s, err := metric.NewCatalog(vendorMetricsOf, facts).Select(names, o)
	if err != nil {
		t.Fatal(err)
	}
	v := NewVendorMetrics(facts)
	list, err := v.Add(s, 0, m.Parse)
	if err != nil {
		t.Fatal(err)
	}
	return v, list, s.Skipped
}

// groupsOf writes an event list as the user would.
func groupsOf(l event.List) string {
	var terms []string
	for _, g := range l {
		var names []string
		for _, e := range g.Events {
			names = append(names, fmt.Sprintf("%s#%d", e.Name, e.Term))
		}
		term := strings.Join(names, ",")
		if len(names) > 1 {
			term = "{" + term + "}"
			if !g.Weak {
				term += " not weak"
			}
		}
		terms = append(terms, term)
	}
	return strings.Join(terms, " ")
}

func TestVendorGroups(t *testing.T) {
	for names, want := range map[string]string{
		"ipc2":           "{instructions#0,cycles#1}",
		"retiring":       "{slots#0,topdown-retiring#1,topdown-bad-spec#2}",
		"TopdownL1":      "{slots#0,topdown-retiring#1,topdown-bad-spec#2,topdown-fe-bound#3} stalls#4 cycles#5",
		"frequency":      "uncore_cha/ticks/#0 uncore_cha/ticks/#0 duration_time#1",
		"frequency,ipc2": "uncore_cha/ticks/#0 uncore_cha/ticks/#0 duration_time#1 {instructions#2,cycles#3}",
		"occupancy":      "{uncore_cha/occupancy/#0,uncore_cha/ticks/#1} {uncore_cha/occupancy/#0,uncore_cha/ticks/#1} cycles#2",
		"clocked":        "cpu-clock#0 instructions#1",
		"apart,ipc2":     "instructions#0 cycles#1 stalls#2 {instructions#3,cycles#4}",
		"stalled,ipc2":   "{stalls#0,cycles#1} {instructions#2,cycles#3}",
		"ipc2,ipc2,iPc2": "{instructions#0,cycles#1}",

		"ipc2:u":                "{instructions:u#0,cycles:u#1}",
		"ipc2:u,ipc2,ipc2:u":    "{instructions:u#0,cycles:u#1} {instructions#2,cycles#3}",
		"ipc2:uD":               "{instructions:uD#0,cycles:u#1}",
		"frequency:k":           "uncore_cha/ticks/k#0 uncore_cha/ticks/k#0 duration_time#1",
		"retiring:k":            "{slots:k#0,topdown-retiring:k#1,topdown-bad-spec:k#2}",
		"TopdownL1:k":           "{slots:k#0,topdown-retiring:k#1,topdown-bad-spec:k#2,topdown-fe-bound:k#3} stalls:k#4 cycles:k#5",
		"stalled:u,ipc2:k,ipc2": "{stalls:u#0,cycles:u#1} {instructions:k#2,cycles:k#3} {instructions#4,cycles#5}",
	} {
		_, list, _ := selected(t, metric.Options{}, strings.Split(names, ",")...)
		if got := groupsOf(list); got != want {
			t.Errorf("%s:\n got %s\nwant %s", names, got, want)
		}
	}
	_, list, skipped := selected(t, metric.Options{NoGroup: true}, "retiring", "ipc2", "TopdownL1")
	const want = "{slots#0,topdown-retiring#1,topdown-bad-spec#2,topdown-fe-bound#3} instructions#4 cycles#5 stalls#6"
	if got := groupsOf(list); got != want {
		t.Errorf("without groups:\n got %s\nwant %s", got, want)
	}
	if !slices.Equal(skipped, []string{"absent"}) {
		t.Errorf("skipped %v", skipped)
	}
}

// vendorRows returns a row for each term of a list, with the counts of its events.
func vendorRows(list event.List, values map[string]float64) []Row {
	var rows []Row
	terms := make(map[int]bool)
	for _, e := range list.Events() {
		if !terms[e.Term] {
			rows = append(rows, Row{Event: e, Name: e.Name, Total: count.Total{Value: values[e.Name], Enabled: 1e6, Running: 1e6}})
		}
		terms[e.Term] = true
	}
	return rows
}

func TestVendorMetrics(t *testing.T) {
	values := map[string]float64{"instructions": 3e6, "cycles": 2e6, "topdown-retiring": 30, "topdown-bad-spec": 10, "topdown-fe-bound": 30,
		"slots": 100, "uncore_cha/ticks/": 8e9, "uncore_cha/occupancy/": 2e9, "cpu-clock": 6e6, "stalls": 1e6}
	for _, c := range []struct {
		name, metrics string
		change        func([]Row) []Row
		want          []string
	}{
		{"a ratio", "ipc2", nil, []string{"instructions: ipc2 1.500  good"}},
		{"beside the first of its events that has a row", "retiring", nil, []string{"topdown-retiring: retiring 75.000 % bad"}},
		{"a group", "TopdownL1", nil, []string{"topdown-retiring: retiring 75.000 % bad", "topdown-retiring: frontend 50.000 % ", "stalls: stalled 0.500  "}},
		{"a time in seconds, and the number of boxes", "frequency", nil, []string{"uncore_cha/ticks/: frequency 2.000 GHz "}},
		{"the count, not the scaled value", "clocked", nil, []string{"cpu-clock: clocked 2.000  "}},
		{"two metrics of one event", "ipc2,apart", nil, []string{"instructions: apart 0.000  ", "instructions: ipc2 1.500  good"}},
		{"modifiers", "ipc2:u", func(r []Row) []Row { r[0].Value, r[1].Value = 4, 2; return r }, []string{"instructions:u: ipc2:u 2.000  good"}},
		{"an estimate", "ipc2", func(r []Row) []Row { return append(r[:1], scaled(0.5, r[1:])...) }, []string{"instructions: ipc2 1.500  good (scaled)"}},
		{"not counted", "ipc2", func(r []Row) []Row { return append(r[:1], scaled(0, r[1:])...) }, nil},
		{"a row is missing", "ipc2", func(r []Row) []Row { return r[:1] }, nil},
		{"divided by 0", "ipc2", func(r []Row) []Row { r[1].Value = 0; return r }, nil},
		{"boxes apart are added up", "frequency", func(r []Row) []Row { return append(r, r[0]) }, []string{"uncore_cha/ticks/: frequency 4.000 GHz "}},
		{"places do not mix", "ipc2", func(r []Row) []Row {
			other := slices.Clone(r)
			other[0].Value *= 2
			return append(in("S0", 1, r), in("S1", 1, other)...)
		}, []string{"instructions: ipc2 1.500  good", "instructions: ipc2 3.000  good"}},
		{"cgroups do not mix", "ipc2", func(r []Row) []Row {
			other := slices.Clone(r)
			other[0].Value /= 2
			return append(of("a", r), of("b", other)...)
		}, []string{"instructions: ipc2 1.500  good", "instructions: ipc2 0.750  bad"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, list, _ := selected(t, metric.Options{}, strings.Split(c.metrics, ",")...)
			rows := vendorRows(list, values)
			if c.change != nil {
				rows = c.change(rows)
			}
			v.compute(rows, 2*time.Second)
			var got []string
			for _, r := range rows {
				for _, m := range r.Metrics {
					s := fmt.Sprintf("%s: %s %s %s %s", r.Name, m.Name, fixed(m.Value, 3), m.in73.unit, judgements[m.Judgement])
					if m.Scaled {
						s += " (scaled)"
					}
					got = append(got, s)
				}
			}
			slices.Sort(got)
			slices.Sort(c.want)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestVendorOutput prints metrics with and without a threshold in all forms.
func TestVendorOutput(t *testing.T) {
	v, list, _ := selected(t, metric.Options{}, "retiring", "frontend", "ipc2")
	rows := vendorRows(list, map[string]float64{"topdown-retiring": 30, "topdown-bad-spec": 10, "topdown-fe-bound": 30, "instructions": 3, "cycles": 2})
	v.compute(rows, time.Second)
	for form, c := range map[string]struct {
		printer func(*bytes.Buffer) Printer
		want    []string
	}{
		"text": {func(b *bytes.Buffer) Printer { return NewText(b, OutputOptions{Metrics: []string{}}) }, []string{
			" #     75.0 %  retiring", " #     50.0 %  frontend", " #     1.50 ipc2"}},
		"colors": {func(b *bytes.Buffer) Printer { return NewText(b, OutputOptions{Metrics: []string{}, Color: true}) }, []string{
			"\x1b[31m #     75.0 %  retiring", " #     50.0 %  frontend", "\x1b[32m #     1.50 ipc2"}},
		"columns": {func(b *bytes.Buffer) Printer { return NewText(b, OutputOptions{Metrics: []string{}, MetricOnly: true}) }, []string{
			"         %  retiring          %  frontend                 ipc2\n                75.0                 50.0                 1.50\n"}},
		"CSV": {func(b *bytes.Buffer) Printer { return NewCSV(b, OutputOptions{Metrics: []string{}, Separator: ","}) }, []string{
			",75.0,%  retiring\n", ",50.0,%  frontend\n", ",1.50,ipc2\n"}},
		"JSON": {func(b *bytes.Buffer) Printer { return NewJSON(b, OutputOptions{Metrics: []string{}}) }, []string{
			`"metric-value" : "75.000000", "metric-unit" : "%  retiring", "metric-threshold" : "bad"}`,
			`"metric-value" : "50.000000", "metric-unit" : "%  frontend"}`,
			`"metric-value" : "1.500000", "metric-unit" : "ipc2", "metric-threshold" : "good"}`}},
	} {
		var b bytes.Buffer
		p := c.printer(&b)
		if err := p.Header(Outcome{Runs: 1}); err != nil {
			t.Fatal(err)
		}
		if err := p.Snapshot(Snapshot{Rows: rows}); err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s: no %q in\n%s", form, want, b.String())
			}
		}
	}
}
