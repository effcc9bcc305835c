package stat

import (
	"math"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/metric"
)

// metricsOf returns the metrics of rows in short: "insn_per_cycle 1.50 insn per cycle".
func metricsOf(rows []Row) []string {
	var list []string
	for _, r := range rows {
		for _, m := range r.Metrics {
			s := m.Name + " " + fixed(m.Value, 3) + " " + m.Unit
			if m.Scaled {
				s += " (scaled)"
			}
			list = append(list, s)
		}
	}
	return list
}

func TestAddMetrics(t *testing.T) {
	for name, c := range map[string]struct {
		rows []Row
		want []string
	}{
		"nothing to go with": {counts(t, "page-faults,cycles,branch-misses", 1, 2, 3), nil},
		"instructions per cycle": {counts(t, "cycles,instructions", 2e6, 3e6),
			[]string{"insn_per_cycle 1.500 insn per cycle"}},
		"names that mean the same": {counts(t, "cpu-cycles,instructions,branch-instructions,branch-misses", 2, 3, 100, 1),
			[]string{"insn_per_cycle 1.500 insn per cycle", "branch_miss_rate 1.000 of all branches"}},
		"the frontend alone": {counts(t, "instructions,stalled-cycles-frontend", 10, 5),
			[]string{"stalled_cycles_per_instruction 0.500 stalled cycles per insn"}},
		"the backend alone": {counts(t, "stalled-cycles-backend,instructions", 5, 10),
			[]string{"stalled_cycles_per_instruction 0.500 stalled cycles per insn"}},
		"the one that stalls more": {counts(t, "instructions,stalled-cycles-frontend,stalled-cycles-backend,cycles", 10, 5, 6, 20), []string{
			"insn_per_cycle 0.500 insn per cycle", "stalled_cycles_per_instruction 0.600 stalled cycles per insn",
			"frontend_cycles_idle 25.000 frontend cycles idle", "backend_cycles_idle 30.000 backend cycles idle"}},
		"rates": {counts(t, "task-clock,context-switches,cpu-migrations,page-faults,branches,minor-faults", 2e6, 2, 4, 6, 8, 10), []string{
			"CPUs_utilized 2.000 CPUs utilized", "cs_per_second 1000.000 /sec", "migrations_per_second 2000.000 /sec",
			"page_faults_per_second 3000.000 /sec", "branch_frequency 4000.000 /sec", "minor_faults_per_second 5000.000 /sec"}},
		"a ratio without its base is a rate": {counts(t, "cpu-clock,branch-misses", 1e9, 5),
			[]string{"CPUs_utilized 1000.000 CPUs utilized", "branch_misses_per_second 5.000 /sec"}},
		"perf 6.1 has only the rate": {counts(t, "task-clock,L1-dcache-prefetches,L1-dcache-prefetch-misses", 1e9, 10, 5), []string{
			"CPUs_utilized 1000.000 CPUs utilized", "L1_dcache_prefetches_per_second 10.000 /sec",
			"l1_prefetch_miss_rate 50.000 ", "L1_dcache_prefetch_misses_per_second 5.000 /sec"}},
		"no time": {counts(t, "task-clock,page-faults", 0, 5),
			[]string{"CPUs_utilized 0.000 CPUs utilized"}},
		"no cycles": {counts(t, "cycles,instructions", 0, 0), nil},
		"user cycles are not the frequency": {counts(t, "task-clock,cycles:u,cycles:k,cycles", 1e6, 1e6, 1e6, 2e6), []string{
			"CPUs_utilized 1.000 CPUs utilized", "cycles:u_per_second 1000000000.000 /sec", "cycles:k_per_second 1000000000.000 /sec",
			"cycles_frequency 2.000 GHz"}},
		"modes do not mix": {counts(t, "cycles:u,instructions,cycles:k,instructions:k", 1, 2, 3, 6),
			[]string{"insn_per_cycle 2.000 insn per cycle"}},
		"modifiers that are the same": {counts(t, "cycles:upp,instructions:upp", 1, 2),
			[]string{"insn_per_cycle 2.000 insn per cycle"}},
		"places do not mix": {slices.Concat(in("CPU0", 1, counts(t, "cycles", 1)), in("CPU1", 1, counts(t, "instructions", 2))), nil},
		"cgroups do not mix": {slices.Concat(of("a", counts(t, "cycles,instructions", 1, 2)), of("b", counts(t, "cycles,instructions", 1, 3))),
			[]string{"insn_per_cycle 2.000 insn per cycle", "insn_per_cycle 3.000 insn per cycle"}},
		"the nearest of several": {counts(t, "{cycles,instructions},{cycles,instructions}", 1, 2, 1, 3),
			[]string{"insn_per_cycle 2.000 insn per cycle", "insn_per_cycle 3.000 insn per cycle"}},
		"an estimate makes estimates": {slices.Concat(scaled(0.5, counts(t, "cycles", 1)), counts(t, "instructions", 2)),
			[]string{"insn_per_cycle 2.000 insn per cycle (scaled)"}},
		"what has no value has no metrics": {slices.Concat(counts(t, "task-clock", 1e6), unsupported(t, "cycles"), scaled(0, counts(t, "branches", 1))),
			[]string{"CPUs_utilized 1.000 CPUs utilized"}},
		"times, levels and units have no rate": {slices.Concat(counts(t, "task-clock,duration_time", 1e6, 1e6),
			[]Row{named("uncore_imc/data_reads/", "MiB", 1, 5), named("uncore_imc/clockticks/", "", 1, 5)}),
			[]string{"CPUs_utilized 1.000 CPUs utilized"}},
	} {
		t.Run(name, func(t *testing.T) {
			addMetrics(c.rows, ms)
			if diff := cmp.Diff(c.want, metricsOf(c.rows)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestMetricsWithoutTime computes metrics of an interval of no time: nothing is divided by 0.
func TestMetricsWithoutTime(t *testing.T) {
	rows := counts(t, "task-clock", 5)
	addMetrics(rows, 0)
	if got := metricsOf(rows); got != nil {
		t.Errorf("got %v", got)
	}
}

// hybridSysfs is a machine with two kinds of cores.
var hybridSysfs = fstest.MapFS{
	"cpu_core/type":                    {Data: []byte("4\n")},
	"cpu_core/cpus":                    {Data: []byte("0-1\n")},
	"cpu_core/format/event":            {Data: []byte("config:0-7\n")},
	"cpu_core/events/cpu-cycles":       {Data: []byte("event=0x3c\n")},
	"cpu_core/events/instructions":     {Data: []byte("event=0xc0\n")},
	"cpu_core/events/topdown-fe-bound": {Data: []byte("event=0x82\n")},
	"cpu_atom/type":                    {Data: []byte("10\n")},
	"cpu_atom/cpus":                    {Data: []byte("2-5\n")},
	"cpu_atom/format/event":            {Data: []byte("config:0-7\n")},
	"cpu_atom/events/cpu-cycles":       {Data: []byte("event=0x3c\n")},
	"cpu_atom/events/instructions":     {Data: []byte("event=0xc0\n")},
}

// hybrid returns the rows of a system-wide session on six CPUs for 1 ms, where each PMU counts on its own CPUs.
func hybrid(t *testing.T, list string, values ...float64) []Row {
	l, err := event.NewMachine(hybridSysfs, nil).Parse(list)
	if err != nil {
		t.Fatal(err)
	}
	var rows []Row
	for i, e := range l.Events() {
		cpus := 6
		if e.CPUs != nil {
			cpus = len(e.CPUs)
		}
		r := Row{Event: e, Name: e.Name, Place: Place{Counters: cpus}}
		r.Value, r.Enabled, r.Running = values[i], uint64(cpus)*1e6, uint64(cpus)*1e6
		rows = append(rows, r)
	}
	addMetrics(rows, ms)
	return rows
}

func TestHybridMetrics(t *testing.T) {
	want := []string{
		"CPUs_utilized 6.000 CPUs utilized",
		"cycles_frequency 2.000 GHz", // of 2 CPUs, not of 6
		"cycles_frequency 1.000 GHz",
		"insn_per_cycle 1.500 insn per cycle",
		"insn_per_cycle 0.500 insn per cycle",
		"page_faults_per_second 1000.000 /sec",
	}
	if diff := cmp.Diff(want, metricsOf(hybrid(t, "cpu-clock,cycles,instructions,page-faults", 6e6, 4e6, 4e6, 6e6, 2e6, 6))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	want = []string{"insn_per_cycle 1.500 insn per cycle"}
	got := hybrid(t, "cpu_core/cpu-cycles/,cpu_core/instructions/,cpu_atom/instructions/,cpu_core/topdown-fe-bound/", 2, 3, 4, 5)
	if diff := cmp.Diff(want, metricsOf(got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestCanonical checks that metrics recognize events by the names that they request for -M.
func TestCanonical(t *testing.T) {
	for _, m := range Metrics() {
		for _, name := range m.Events {
			if got := canonical(parseEvents(t, name)[0]); got != name {
				t.Errorf("%s needs %s, which is known as %q", m.Name, name, got)
			}
		}
	}
	for _, name := range []string{"duration_time", "dummy", "L1-dcache-stores", "node-loads", "r1a8", "mem:0x1000:w"} {
		if got := canonical(parseEvents(t, name)[0]); got != "" {
			t.Errorf("%s is known as %q", name, got)
		}
	}
}

func TestMetricEvents(t *testing.T) {
	for names, want := range map[string][]string{
		"insn_per_cycle":                         {"{instructions,cycles}:W"},
		"ipc":                                    {"{instructions,cycles}:W"},
		"ghz":                                    {"cycles", "task-clock"},
		"CPUs_utilized, page_faults_per_second":  {"task-clock", "page-faults"},
		"insn_per_cycle,cycles_frequency":        {"{instructions,cycles}:W", "task-clock"},
		"cycles_frequency,insn_per_cycle":        {"task-clock", "{instructions,cycles}:W"},
		"insn_per_cycle,insn_per_cycle":          {"{instructions,cycles}:W"},
		"branch_miss_rate,branch_frequency":      {"{branch-misses,branches}:W", "task-clock"},
		"IPC:u,insn_per_cycle:kD,insn_per_cycle": {"{instructions:u,cycles:u}:W", "{instructions:kD,cycles:k}:W", "{instructions,cycles}:W"},
		"ghz:u,page_faults_per_second:u":         {"cycles:u", "task-clock:u", "page-faults:u"},
	} {
		got, err := MetricEvents(names, metric.Options{})
		if err != nil {
			t.Errorf("%s: %v", names, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", names, diff)
		}
	}
}

func TestMetricOptions(t *testing.T) {
	const names = "insn_per_cycle,cycles_frequency"
	for o, want := range map[metric.Options][]string{
		{NoGroup: true}:                {"instructions", "cycles", "task-clock"},
		{NoMerge: true}:                {"{instructions,cycles}:W", "cycles", "task-clock"},
		{NoGroup: true, NoMerge: true}: {"instructions", "cycles", "cycles", "task-clock"},
	} {
		got, err := MetricEvents(names, o)
		if err != nil {
			t.Errorf("%+v: %v", o, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%+v: -want +got:\n%s", o, diff)
		}
	}
}

func TestUnknownMetric(t *testing.T) {
	for names, want := range map[string]string{
		"insn_per_cycel":        `no metric is named "insn_per_cycel"; nearest: insn_per_cycle`,
		"GHz,branch_miss_rates": `no metric is named "branch_miss_rates"; nearest: branch_miss_rate`,
		"zzzzzzzzzzzz":          `no metric is named "zzzzzzzzzzzz"; there are CPUs_utilized, cs_per_second, `,
		"GHz:u,nosuch:u":        `no metric is named "nosuch"`,
		"GHz:ux":                "event syntax error: there is no modifier 'x'",
		"GHz:":                  "event syntax error: a modifier is missing here",
		"GHz,":                  `no metric is named ""; there are CPUs_utilized, cs_per_second, `,
	} {
		_, err := MetricEvents(names, metric.Options{})
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", names, err, want)
		}
	}
}

func TestMetrics(t *testing.T) {
	seen := make(map[string]bool)
	for _, m := range Metrics() {
		if seen[m.Name] || m.Description == "" || len(m.Events) == 0 {
			t.Errorf("%+v is not fully described, or twice", m)
		}
		seen[m.Name] = true
		if _, err := MetricEvents(m.Name, metric.Options{}); err != nil {
			t.Error(err)
		}
	}
}

// TestDefaultEvents checks that each name of the default sets is an event.
func TestDefaultEvents(t *testing.T) {
	parseEvents(t, strings.Join(DefaultEvents(3, true), ","))
	for detail, want := range map[int]int{-1: 10, 0: 10, 1: 14, 2: 20, 3: 22, 4: 22} {
		if got := len(DefaultEvents(detail, false)); got != want {
			t.Errorf("detail %d: %d events, want %d", detail, got, want)
		}
	}
	if got := [2]string{DefaultEvents(0, false)[0], DefaultEvents(0, true)[0]}; got != [2]string{"task-clock", "cpu-clock"} {
		t.Errorf("the clocks are %v", got)
	}
}

func TestStats(t *testing.T) {
	for name, c := range map[string]struct {
		values            []float64
		mean, stdErr, rel float64
	}{
		"none":                  {nil, 0, 0, 0},
		"one":                   {[]float64{5}, 5, 0, 0},
		"two":                   {[]float64{4, 6}, 5, 1, 20}, // s = sqrt(2), s/sqrt(2) = 1
		"equal":                 {[]float64{7, 7, 7}, 7, 0, 0},
		"around 0":              {[]float64{-1, 1}, 0, 1, 0},
		"negative":              {[]float64{-4, -6}, -5, 1, 20},
		"near each other, huge": {[]float64{1e15 + 4, 1e15 + 6}, 1e15 + 5, 1, 100 / (1e15 + 5)},
		"five":                  {[]float64{2, 4, 4, 4, 6}, 4, math.Sqrt(2.0 / 5), 25 * math.Sqrt(2.0/5)},
	} {
		var s stats
		for _, v := range c.values {
			s.add(v)
		}
		for _, p := range [][2]float64{{s.mean, c.mean}, {s.stdErr(), c.stdErr}, {s.relStdErr(), c.rel}} {
			if math.Abs(p[0]-p[1]) > 1e-9*max(1, math.Abs(p[1])) {
				t.Errorf("%s: got %v ± %v (%v %%), want %v ± %v (%v %%)", name, s.mean, s.stdErr(), s.relStdErr(), c.mean, c.stdErr, c.rel)
				break
			}
		}
	}
}

func TestPrecision(t *testing.T) {
	for err, want := range map[float64]int{0: 9, 1e-12: 9, 2.01e-5: 7, 0.0132: 4, 0.5: 3, 1: 2, 50: 2} {
		if got := precision(err); got != want {
			t.Errorf("precision(%v) = %d, want %d", err, got, want)
		}
	}
	if got := seconds(-0); got != "0.000000000" {
		t.Errorf("seconds(0) = %s", got)
	}
	if got := seconds(time.Hour + 1); got != "3600.000000001" {
		t.Errorf("seconds(1h) = %s", got)
	}
}
