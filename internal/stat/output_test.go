package stat

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/count/program"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/golden"
)

// outputCase is a session's results, and their three printed forms.
type outputCase struct {
	options   OutputOptions
	outcome   Outcome
	snapshots []Snapshot
}

// parseEvents parses events for a machine without sysfs, where the PMU "cpu" counts all generic events.
func parseEvents(t testing.TB, list string) []*event.Event {
	t.Helper()
	l, err := event.NewMachine(nil, nil).Parse(list)
	if err != nil {
		t.Fatal(err)
	}
	return l.Events()
}

// counts returns rows of events that were counted exactly, for 1 ms.
func counts(t testing.TB, list string, values ...float64) []Row {
	t.Helper()
	events := parseEvents(t, list)
	if len(events) != len(values) {
		t.Fatalf("%d events, %d values", len(events), len(values))
	}
	rows := make([]Row, len(events))
	for i, e := range events {
		rows[i] = Row{Event: e, Name: e.Name, Total: count.Total{Value: values[i], Enabled: 1e6, Running: 1e6}}
	}
	return rows
}

// in puts rows into a place.
func in(id string, counters int, rows []Row) []Row {
	for i := range rows {
		rows[i].Place = Place{ID: id, Counters: counters}
	}
	return rows
}

// of gives rows a cgroup.
func of(cgroup string, rows []Row) []Row {
	for i := range rows {
		rows[i].Cgroup = cgroup
	}
	return rows
}

// inProgram makes rows those of a BPF program.
func inProgram(name string, rows []Row) []Row {
	for i := range rows {
		rows[i].Program = name
	}
	return rows
}

// scaled turns rows into estimates, whose counters ran for a share of the time.
func scaled(share float64, rows []Row) []Row {
	for i := range rows {
		rows[i].Running = uint64(share * float64(rows[i].Enabled))
	}
	return rows
}

// unsupported returns rows of events that the machine lacks.
func unsupported(t testing.TB, list string) []Row {
	rows := counts(t, list, make([]float64, len(parseEvents(t, list)))...)
	for i := range rows {
		rows[i].Total = count.Total{}
		rows[i].Err = &count.Unsupported{Event: rows[i].Event, Reason: "this machine has no PMU.", Remedy: "Pass one through to the guest."}
	}
	return rows
}

// named returns a row of an event of an invented PMU.
func named(name, unit string, scale, value float64) Row {
	e := &event.Event{Name: name, PMU: "uncore_imc_0", Attr: perfdata.Attr{Type: 14}, Unit: unit, Scale: scale, Uncore: true}
	return Row{Event: e, Name: name, Total: count.Total{Value: value, Enabled: 1e6, Running: 1e6}}
}

// programRows returns rows of a BPF program that ran five times. One run is not in the counts.
func programRows(t testing.TB, label string) []Row {
	rows := inProgram(label, counts(t, "cpu-clock,cycles,instructions", 5150, 2e4, 3e4))
	for i, values := range [][]uint64{{1000, 1000, 1150, 2000}, {5000, 5000, 5000, 5000}, {0, 0, 0, 30000}} {
		rows[i].Runs = new(count.Runs)
		for _, v := range values {
			one := &count.Runs{Counted: 1, Min: v, Max: v, Ranged: true}
			one.Buckets[count.BucketOf(v)] = 1
			rows[i].Runs.Add(one)
		}
		rows[i].PerRun = rows[i].Value / 4
		rows[i].Runs.Probes, rows[i].Runs.ProbesMeasured = []uint64{310, 600, 0}[i]*4, true
	}
	rows[2].Runs.Unmeasured = 4
	rows = append(rows, ownRows(label, 5, 5150, 1)...)
	rows[len(rows)-1].Dropped = &count.Dropped{count.DroppedSwitched: 1}
	return rows
}

// ownRows returns rows of the events that only BPF programs have.
func ownRows(label string, values ...float64) (rows []Row) {
	for i, e := range program.OwnEvents() {
		rows = append(rows, Row{Event: e, Name: e.Name, Program: label, Total: count.Total{Value: values[i], Enabled: 1e6, Running: 1e6}})
	}
	return rows
}

// untraced returns rows of a BPF program that cannot be traced.
func untraced(t testing.TB, label string) []Row {
	rows := slices.Concat(inProgram(label, unsupported(t, "cpu-clock,cycles,instructions")), ownRows(label, 7, 1000, 0))
	for i := range rows {
		if rows[i].Event.Name != program.Runs && rows[i].Event.Name != program.RunTime {
			rows[i].Total = count.Total{}
			rows[i].Err = &program.Untraceable{Target: program.Target{ID: 12, Name: "plain"}, Reason: "It has no BTF."}
		}
	}
	return rows
}

const ms = time.Millisecond

// whole returns a snapshot of 1 ms, with metrics.
func whole(rows ...[]Row) []Snapshot {
	all := slices.Concat(rows...)
	addMetrics(all, ms)
	return []Snapshot{{Rows: all}}
}

var once = Outcome{Subject: "'sleep 1'", Runs: 1, Elapsed: []time.Duration{1234567 * time.Nanosecond}}

func outputCases(t testing.TB) map[string]outputCase {
	basic := func() []Row { return counts(t, "task-clock,page-faults", 733431, 49) }
	placed := func(by Aggregation, ids ...string) outputCase {
		counters := 1
		if by.countsCounters() {
			counters = 2
		}
		var rows []Row
		for _, id := range ids {
			rows = append(rows, in(id, counters, counts(t, "cpu-clock,cycles,instructions,stalled-cycles-frontend", 1e6, 2e6, 3e6, 4e5))...)
			rows = append(rows, in(id, 0, unsupported(t, "branches"))...)
		}
		return outputCase{options: OutputOptions{Aggregation: by, BigNum: true}, outcome: once, snapshots: whole(rows)}
	}
	intervals := func(c outputCase, summary bool) outputCase {
		c.options.Interval = true
		c.snapshots[0].Time = 100102030 * time.Nanosecond
		second := c.snapshots[0]
		second.Time = 3601*time.Second + 5*time.Nanosecond
		c.snapshots = append(c.snapshots, second)
		if summary {
			second.Summary = true
			c.snapshots = append(c.snapshots, second)
		}
		return c
	}
	with := func(c outputCase, f func(*outputCase)) outputCase { f(&c); return c }

	repeated := outputCase{
		options:   OutputOptions{BigNum: true},
		outcome:   Outcome{Subject: "'true'", Runs: 3, Elapsed: []time.Duration{922130, 1031360, 919840}},
		snapshots: whole(basic(), counts(t, "context-switches", 0), unsupported(t, "cycles")),
	}
	repeated.snapshots[0].Rows[0].Variance = 1.75
	repeated.snapshots[0].Rows[1].Variance = 0.682

	return map[string]outputCase{
		"command": {OutputOptions{BigNum: true},
			Outcome{Subject: "'true'", Runs: 1, Elapsed: []time.Duration{1038859}, User: 1059000, HasTimes: true},
			whole(basic(), unsupported(t, "cycles,instructions"))},
		"defaults": {OutputOptions{Defaults: true}, once, whole(basic(), unsupported(t, "cycles,instructions"))},
		"pmu": {OutputOptions{BigNum: true}, once, whole(counts(t,
			"task-clock,context-switches,cycles,stalled-cycles-frontend,stalled-cycles-backend,instructions,branches,branch-misses,"+
				"L1-dcache-loads,L1-dcache-load-misses,LLC-loads,LLC-load-misses,cache-references,cache-misses,dTLB-loads,dTLB-load-misses,iTLB-loads,iTLB-load-misses,L1-icache-loads,L1-icache-load-misses",
			1e6, 3, 2345678, 234567, 345678, 3456789, 456789, 5678, 1e6, 2e5, 3e4, 4e3, 7e4, 6e3, 9e5, 100, 200, 100, 3e6, 1))},
		"prefetches": {OutputOptions{BigNum: true}, once, whole(counts(t, "task-clock,L1-dcache-prefetches,L1-dcache-prefetch-misses", 1e6, 4000, 1000))},
		"scaled": {OutputOptions{BigNum: true}, once, whole(
			scaled(0.692, counts(t, "task-clock,cycles,instructions,stalled-cycles-frontend", 1e6, 2e6, 3e6, 1e5)),
			counts(t, "branches", 1e5), scaled(0.999999, counts(t, "branch-misses", 7)),
			scaled(0.5, counts(t, "cache-references", 1e5)), counts(t, "cache-misses", 7))},
		"not-counted": {OutputOptions{BigNum: true}, once, whole(
			scaled(0, counts(t, "cycles", 0)), []Row{{Event: parseEvents(t, "faults")[0], Name: "faults"}}, basic())},
		"zero":      {OutputOptions{}, once, whole(counts(t, "task-clock,cycles,instructions,branch-misses", 0, 0, 0, 0))},
		"hide-zero": {OutputOptions{HideZero: true}, once, whole(counts(t, "context-switches,page-faults", 0, 1), unsupported(t, "cycles"))},
		"huge": {OutputOptions{BigNum: true}, once, whole(
			counts(t, "task-clock,page-faults,context-switches", 1<<63, 18446744073709551615, 999))},
		"no-big-num": {OutputOptions{}, once, whole(counts(t, "task-clock,page-faults", 5e9, 1234567))},
		"units": {OutputOptions{BigNum: true}, once, whole([]Row{
			named("uncore_imc/data_reads/", "MiB", 6.103515625e-5, 12345678), named("power/energy-pkg/", "Joules", 2.3283064365386962890625e-10, 1e12),
			named("thermal/package/", "°Celsius", 1, 71), named("uncore/plain/", "", 64, 3)}, counts(t, "task-clock,duration_time", 1e6, 1e6))},
		"names": {OutputOptions{}, with1(once, "'sh -c echo \"\x1b[31m\"'"), whole(
			of("/a,b", []Row{named(`cpu/config=1,name="x"/`, "", 1, 5)}), of("/ü\n\x1b[2J", []Row{named("näme", "µ,s", 0.5, 5)}))},
		"null":    {OutputOptions{}, once, []Snapshot{{}}},
		"cgroups": {OutputOptions{BigNum: true}, once, whole(of("/", counts(t, "task-clock,cycles,instructions,stalled-cycles-backend", 1e6, 2e6, 3e6, 1e6)), of("system.slice/ssh.service", unsupported(t, "cycles")))},

		"programs":        {OutputOptions{BigNum: true, Programs: true}, once, whole(programRows(t, "handle_ingress[7]"), untraced(t, "plain[12]"))},
		"programs-scaled": {OutputOptions{BigNum: true, Programs: true}, once, whole(scaled(0.5, programRows(t, "handle_ingress[7]")[:3]))},
		"programs-sum":    {OutputOptions{Programs: true}, once, whole(programRows(t, ""))},
		"programs-per-cpu": {OutputOptions{Programs: true, Aggregation: AggregateNone}, once,
			whole(in("CPU0", 1, programRows(t, "a[7]")), in("CPU1", 1, programRows(t, "a[7]")))},
		"programs-interval":    intervals(outputCase{OutputOptions{Programs: true}, once, whole(programRows(t, "a[7]"))}, true),
		"programs-histogram":   {OutputOptions{Programs: true, Histogram: true}, once, whole(programRows(t, "a[7]"), untraced(t, "plain[12]"))},
		"programs-metric-only": {OutputOptions{Programs: true, MetricOnly: true}, once, whole(programRows(t, "a[7]"), untraced(t, "plain[12]"))},

		"per-cpu":     placed(AggregateNone, "CPU0", "CPU127"),
		"per-core":    placed(AggregateCore, "S0-D0-C0", "S0-D0-C1"),
		"per-cluster": placed(AggregateCluster, "S0-D0-CLS0", "S0-D0-CLS16"),
		"per-cache":   placed(AggregateCache, "S0-D0-L3-ID0", "S0-D0-L3-ID16"),
		"per-die":     placed(AggregateDie, "S0-D0", "S1-D0"),
		"per-socket":  placed(AggregateSocket, "S0", "S1"),
		"per-node":    placed(AggregateNode, "N0", "N1"),
		"per-thread":  placed(AggregateThread, "bash-4107", "kworker/u4:0-ev-12", "a,\"b-1\x1b"),

		"interval":              intervals(outputCase{OutputOptions{BigNum: true}, once, whole(basic())}, false),
		"interval-clear":        intervals(outputCase{OutputOptions{IntervalClear: true}, once, whole(basic(), unsupported(t, "cycles"))}, false),
		"interval-per-cpu":      intervals(placed(AggregateNone, "CPU0"), false),
		"interval-per-core":     intervals(placed(AggregateCore, "S0-D0-C0"), true),
		"interval-per-die":      intervals(placed(AggregateDie, "S0-D0"), false),
		"interval-per-socket":   intervals(placed(AggregateSocket, "S0"), false),
		"interval-per-node":     intervals(placed(AggregateNode, "N0"), false),
		"interval-per-thread":   intervals(placed(AggregateThread, "bash-4107"), false),
		"summary":               intervals(outputCase{OutputOptions{BigNum: true}, once, whole(basic(), unsupported(t, "cycles"))}, true),
		"no-csv-summary":        with(intervals(outputCase{OutputOptions{}, once, whole(basic())}, true), func(c *outputCase) { c.options.NoCSVSummary = true }),
		"interval-late-counter": {OutputOptions{Interval: true}, once, []Snapshot{{Time: ms, Rows: scaled(0, counts(t, "cycles", 0))}, {Time: 2 * ms, Rows: counts(t, "cycles", 1)}}},

		"repeat":       repeated,
		"repeat-table": with(repeated, func(c *outputCase) { c.options.Table = true }),
		"repeat-equal": {OutputOptions{Table: true}, Outcome{Subject: "'true'", Runs: 2, Elapsed: []time.Duration{ms, ms}}, whole(basic())},
		"repeat-slow":  {OutputOptions{Table: true}, Outcome{Subject: "'make'", Runs: 2, Elapsed: []time.Duration{100 * time.Second, 200 * time.Second}}, whole(basic())},

		"metric-only": {OutputOptions{MetricOnly: true, BigNum: true}, once, whole(
			counts(t, "task-clock,cycles,cycles:u,instructions,branches,branch-misses,page-faults", 1e6, 2e6, 1e6, 3e6, 1e6, 1e5, 49),
			scaled(0.5, counts(t, "L1-dcache-loads", 1e6)))},
		"metrics-of-some": {OutputOptions{Metrics: []string{"insn_per_cycle", "branch_frequency"}}, once,
			whole(counts(t, "task-clock,cycles,instructions,branches,minor-faults,stalled-cycles-backend", 1e6, 2e6, 3e6, 1e6, 5, 7e5))},
		"metrics-of-some-in-programs": {OutputOptions{Programs: true, Metrics: []string{"insn_per_cycle"}}, once, whole(programRows(t, "a[7]"))},
		"metric-only-none":            {OutputOptions{MetricOnly: true}, once, whole(counts(t, "page-faults", 5), unsupported(t, "cycles"))},
		"metric-only-per-cpu":         with(placed(AggregateNone, "CPU0", "CPU1"), func(c *outputCase) { c.options.MetricOnly = true }),
		"metric-only-thread":          with(placed(AggregateThread, "bash-1"), func(c *outputCase) { c.options.MetricOnly = true }),
		"metric-only-core":            with(intervals(placed(AggregateCore, "S0-D0-C0", "S0-D0-C1"), true), func(c *outputCase) { c.options.MetricOnly = true }),
		"metric-only-cgroups":         {OutputOptions{MetricOnly: true}, once, whole(of("/", basic()), of("a", basic()))},
		"metric-only-interval":        {OutputOptions{MetricOnly: true, Interval: true}, once, append(whole(basic()), whole(basic(), counts(t, "context-switches", 1))...)},
	}
}

func with1(o Outcome, subject string) Outcome { o.Subject = subject; return o }

// print prints a case in one form.
func (c outputCase) print(t testing.TB, form func(io.Writer, OutputOptions) Printer) []byte {
	t.Helper()
	var b bytes.Buffer
	o := c.options
	o.Separator = ","
	p := form(&b, o)
	if err := p.Header(c.outcome); err != nil {
		t.Fatal(err)
	}
	for _, s := range c.snapshots {
		if err := p.Snapshot(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.End(c.outcome); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// compats are the directories of golden files.
var compats = map[string]Compat{"7.3": Perf73, "6.1": Perf61}

func TestOutput(t *testing.T) {
	cases := outputCases(t)
	for version, compat := range compats {
		for name, c := range cases {
			t.Run(name+" as perf "+version, func(t *testing.T) {
				c.options.Compat = compat
				got := txtar.Format(&txtar.Archive{Files: []txtar.File{
					{Name: "text", Data: c.print(t, NewText)},
					{Name: "csv", Data: c.print(t, NewCSV)},
					{Name: "json", Data: c.print(t, NewJSON)},
				}})
				golden.Compare(t, filepath.Join("testdata", "output", version, name+".txtar"), string(got))
			})
		}
	}
	files, err := filepath.Glob(filepath.Join("testdata", "output", "*", "*.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if _, ok := cases[strings.TrimSuffix(filepath.Base(f), ".txtar")]; !ok {
			t.Errorf("%s belongs to no case", f)
		}
	}
}

// TestCSVColumns checks the number of columns, on which programs that parse perf's CSV rely.
func TestCSVColumns(t *testing.T) {
	for name, c := range outputCases(t) {
		t.Run(name, func(t *testing.T) {
			if c.options.MetricOnly {
				t.Skip("has columns for the metrics that there are")
			}
			want := 7
			switch {
			case c.options.Aggregation.countsCounters():
				want += 2
			case c.options.Aggregation != AggregateGlobal:
				want++
			}
			if c.options.Interval {
				want++
			}
			if c.outcome.Runs > 1 {
				want++
			}
			if hasGroups(c.snapshots[0].Rows) {
				want++
			}
			if c.options.Programs {
				want += 8
			}
			for i, record := range readCSV(t, c.print(t, NewCSV), ',') {
				columns := want
				if c.options.NoCSVSummary && i >= 4 { // the rows of the summary have no first column
					columns--
				}
				if len(record) != columns {
					t.Errorf("%q has %d columns, not %d", record, len(record), columns)
				}
			}
		})
	}
}

func readCSV(t testing.TB, data []byte, comma rune) [][]string {
	t.Helper()
	r := csv.NewReader(bytes.NewReader(data))
	r.Comma, r.FieldsPerRecord = comma, -1
	records, err := r.ReadAll()
	if err != nil {
		t.Fatalf("%v in\n%s", err, data)
	}
	return records
}

// perfKeys are perf's JSON keys, with their types in perf 7.3. Programs that check perf's output reject others.
var perfKeys = map[string]any{
	"interval": 0.0, "cpu": "", "core": "", "cluster": "", "cache": "", "die": "", "socket": "", "node": "", "thread": "",
	"counters": 0.0, "counter-value": "", "unit": "", "event": "", "cgroup": "", "variance": 0.0,
	"event-runtime": 0.0, "pcnt-running": 0.0, "metric-value": "", "metric-unit": "",
}

// programKeys are the JSON keys that only rows of BPF programs have.
var programKeys = map[string]any{
	"program": "", "reason": "", "runs": 0.0, "run-mean": 0.0, "run-min": 0.0, "run-median": 0.0, "run-p90": 0.0, "run-p99": 0.0, "run-max": 0.0,
	"run-probes": 0.0, "histogram": []any{}, "dropped": map[string]any{},
}

// keyType returns an example of a key's value, or nil if perf has no such key.
func (c outputCase) keyType(key string) any {
	if c.options.Compat == Perf61 {
		switch key {
		case "metric-value":
			if !c.options.MetricOnly {
				return 0.0
			}
		case "aggregate-number":
			return 0.0
		case "counters":
			return nil
		}
	}
	if of, known := perfKeys[key]; known {
		return of
	}
	if of, known := programKeys[key]; known && c.options.Programs {
		return of
	}
	if c.options.MetricOnly {
		return "" // a metric
	}
	return nil
}

func TestJSONTypes(t *testing.T) {
	for version, compat := range compats {
		for name, c := range outputCases(t) {
			t.Run(name+" as perf "+version, func(t *testing.T) {
				c.options.Compat = compat
				for _, o := range readJSON(t, c.print(t, NewJSON)) {
					for key, value := range o {
						want := c.keyType(key)
						if want == nil {
							t.Errorf("perf has no key %q", key)
						} else if got, want := jsonType(value), jsonType(want); got != want {
							t.Errorf("%s is a %s, not a %s", key, got, want)
						}
					}
				}
			})
		}
	}
}

// TestPerf61Keys expects both keys of metrics in each object of an event: those who read perf 6.1's output may rely on them.
func TestPerf61Keys(t *testing.T) {
	for name, c := range outputCases(t) {
		c.options.Compat = Perf61
		for _, o := range readJSON(t, c.print(t, NewJSON)) {
			if _, ok := o["metric-unit"]; o["event"] != nil && !ok {
				t.Errorf("%s: no metric-unit in %v", name, o)
			}
		}
	}
}

func jsonType(v any) string {
	switch v.(type) {
	case string:
		return "string"
	case float64:
		return "number"
	case bool:
		return "boolean"
	case []any:
		return "array"
	default:
		return "something else"
	}
}

// readJSON parses an object from each line, and fails on a duplicate key.
func readJSON(t testing.TB, data []byte) []map[string]any {
	t.Helper()
	var objects []map[string]any
	for line := range bytes.Lines(data) {
		var o map[string]any
		if err := json.Unmarshal(line, &o); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		if keys := topKeys(t, line); keys != len(o) {
			t.Errorf("%d keys, but %d different ones in %s", keys, len(o), line)
		}
		objects = append(objects, o)
	}
	return objects
}

// topKeys counts the keys of an object.
func topKeys(t testing.TB, line []byte) (keys int) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(line))
	if _, err := d.Token(); err != nil {
		t.Fatal(err)
	}
	for d.More() {
		if _, err := d.Token(); err != nil {
			t.Fatal(err)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			t.Fatal(err)
		}
		keys++
	}
	return keys
}

func TestSeparator(t *testing.T) {
	var b bytes.Buffer
	p := NewCSV(&b, OutputOptions{Separator: "::"})
	if err := p.Snapshot(whole([]Row{named("a::b:c", "", 1, 5)})[0]); err != nil {
		t.Fatal(err)
	}
	if got, want := b.String(), "5::::\"a::b:c\"::1000000::100.00::::\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for sep, want := range map[string]string{
		",": "", "\t": "", "::": "",
		"":    "the separator is empty",
		`"`:   `the separator "\"" has a quote or an end of line, which fields are quoted with`,
		"a\n": `the separator "a\n" has a quote or an end of line, which fields are quoted with`,
	} {
		got := ""
		if err := CheckSeparator(sep); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("CheckSeparator(%q): got %q, want %q", sep, got, want)
		}
	}
}

// TestIntervalHeading expects a heading above each 25 intervals.
func TestIntervalHeading(t *testing.T) {
	for _, metricOnly := range []bool{false, true} {
		c := outputCase{options: OutputOptions{Interval: true, MetricOnly: metricOnly}, outcome: once}
		for range 51 {
			c.snapshots = append(c.snapshots, whole(counts(t, "task-clock", 1))...)
		}
		var headings []int
		line := 0
		for l := range strings.Lines(string(c.print(t, NewText))) {
			if strings.HasPrefix(l, "#") {
				headings = append(headings, line)
			}
			line++
		}
		if want := []int{0, 26, 52}; !slices.Equal(headings, want) {
			t.Errorf("metric only %v: headings in lines %v, want %v", metricOnly, headings, want)
		}
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

// TestWriteError checks that a write error, as of a full disk, is returned.
func TestWriteError(t *testing.T) {
	s := whole(counts(t, "task-clock", 1))[0]
	for name, p := range map[string]Printer{
		"text": NewText(fullDisk{}, OutputOptions{}),
		"csv":  NewCSV(fullDisk{}, OutputOptions{Separator: ","}),
		"json": NewJSON(fullDisk{}, OutputOptions{}),
	} {
		if err := p.Snapshot(s); err != io.ErrShortWrite {
			t.Errorf("%s: Snapshot: %v", name, err)
		}
		if err := p.End(once); err != io.ErrShortWrite && name == "text" {
			t.Errorf("%s: End: %v", name, err)
		}
	}
}

// FuzzOutput searches for names, units and values that break CSV or JSON.
func FuzzOutput(f *testing.F) {
	f.Add("cycles", "", "", "", 1.0, 1.0, uint64(5), uint64(5), 0.0)
	f.Add("a,\"b\"\r\n", "µ\x00s", "/c,d", "x\xff-1", 1e300, 1e300, uint64(5), uint64(1), 1e308)
	f.Add("\xed\xa0\x80", "\u2028", " ", "CPU", -1.5, 0.1, uint64(1), uint64(0), -1.0)
	f.Fuzz(func(t *testing.T, name, unit, cgroup, place string, value, scale float64, enabled, running uint64, variance float64) {
		if !finite(variance) {
			t.Skip("Stats has no such errors")
		}
		e := &event.Event{Name: name, Unit: unit, Scale: scale, PMU: "cpu", Attr: perfdata.Attr{Type: perfdata.TypeRaw}}
		rows := []Row{{Event: e, Name: name, Cgroup: cgroup, Place: Place{ID: place, Counters: 1}, Variance: variance,
			Total: count.Total{Value: value, Enabled: enabled, Running: running}}}
		rows = append(rows, in(place, 1, of(cgroup, counts(t, "task-clock,instructions,cycles", 1e6, value, 5)))...)
		for i := range 4 {
			metricOnly, compat := i%2 == 1, Compat(i/2)
			c := outputCase{OutputOptions{MetricOnly: metricOnly, Compat: compat, Aggregation: AggregateNone}, Outcome{Subject: name, Runs: 2, Elapsed: []time.Duration{1, 2}}, whole(rows)}
			readJSON(t, c.print(t, NewJSON))
			columns := 0
			for i, r := range readCSV(t, c.print(t, NewCSV), ',') {
				if i == 0 {
					columns = len(r)
				}
				if len(r) != columns {
					t.Errorf("%q has %d columns, the first line has %d", r, len(r), columns)
				}
				if !metricOnly && i == 0 && (r[3] != printable.Text(name) || r[2] != printable.Text(unit)) {
					t.Errorf("name %q and unit %q became %q and %q", name, unit, r[3], r[2])
				}
			}
			if text := c.print(t, NewText); bytes.ContainsAny(text, "\x1b\r\x00") {
				t.Errorf("control characters in %q", text)
			}
		}
	})
}

// TestErrorLines wants a reason once, with the names of all events that it applies to.
func TestErrorLines(t *testing.T) {
	failed := func(name, reason, remedy string) error {
		return &count.Unsupported{Event: &event.Event{Name: name}, Reason: reason, Remedy: remedy}
	}
	got := errorLines([]error{failed("cycles", "No PMU.", "Buy one."), errors.New("no thread 7"), failed("sched:a", "No file.", ""), failed("branches", "No PMU.", "Buy one."),
		fmt.Errorf("in program 3: %w", failed("cycles", "No PMU.", "Buy one."))})
	want := []string{"cycles, branches: No PMU. Buy one.", "no thread 7", "sched:a: No file.", "in program 3: cycles: No PMU. Buy one."}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
