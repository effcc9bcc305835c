package top

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/internal/bpfprog"
	"github.com/bperf/bperf/internal/count/process"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/perfevent"
)

const window = 2 * time.Second

// observation returns programs that ran and some that did not, in an interval of 2 s.
func observation() *bpfprog.Observation {
	program := func(id uint32, kind bpfprog.Type, name string, runs uint64, time time.Duration) bpfprog.Observed {
		return bpfprog.Observed{Program: &bpfprog.Program{ID: id, Type: kind, Name: name},
			Use: bpfprog.Use{Stats: bpfprog.Stats{Runs: runs, RunTime: time}, CPUs: float64(time) / float64(window)}}
	}
	return &bpfprog.Observation{Window: window, Runs: 4_000_000, Programs: []bpfprog.Observed{
		program(7, 17, "on_switch", 6000, 600*time.Microsecond),
		program(8, 6, "cil_from_netdev", 3_000_000, 3*time.Second),
		program(9, 15, "sd_devices", 0, 0),
		program(100000, 26, "", 1, 7*time.Millisecond),
	}}
}

// list parses events, which this machine may lack.
func list(t *testing.T, names string) event.List {
	t.Helper()
	all, err := event.Host().Parse(names)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func texts(rows []Row) (all []string) {
	for _, r := range rows {
		var line []string
		for _, c := range r.Cells {
			line = append(line, c.Text)
		}
		all = append(all, strings.Join(line, " "))
	}
	return all
}

func expectTexts(t *testing.T, r *Reading, columns []Column, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, texts(r.Rows)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, row := range r.Rows {
		if len(row.Cells) != len(columns) {
			t.Errorf("%d cells in %d columns", len(row.Cells), len(columns))
		}
	}
}

func TestProgramReading(t *testing.T) {
	r := programReading(observation(), programCost{own: 0.0123, perRun: 45}, events{}, nil, remember(nil, observation()))
	expectTexts(t, r, programColumns(events{}), "0.030 3000.0 100.0 7 raw_tracepoint █ on_switch", "150.000 1500000.0 1000.0 8 xdp █ cil_from_netdev",
		"0.000 0.0 - 9 cgroup_device   sd_devices", "0.350 0.5 7000000.0 100000 tracing █ -")
	if want := "3 of 4 BPF programs ran, 1503000.5 runs/s, 150.380 % of a CPU"; r.Total != want {
		t.Errorf("%q, want %q", r.Total, want)
	}
	e := newEvents(list(t, "cycles,instructions,cpu-clock"), "run")
	full := func(n uint64) []perfevent.Reading { return []perfevent.Reading{{Value: n, Enabled: 9, Running: 9}} }
	r = programReading(observation(), programCost{}, e, map[uint32]*inProgram{
		7: {5000, [][]perfevent.Reading{append(full(500_000), full(500_000)...), {{Value: 1_000_000, Enabled: 8, Running: 4}}, full(5_000_000)}},
		8: {0, [][]perfevent.Reading{full(0), full(0), nil}},
	}, remember(nil, observation()))
	expectTexts(t, r, programColumns(e), "0.030 3000.0 100.0 200.0 ~400.0 0.0 ~2.00 7 raw_tracepoint █ on_switch",
		"150.000 1500000.0 1000.0 - - - - 8 xdp █ cil_from_netdev", "0.000 0.0 - - - - - 9 cgroup_device   sd_devices",
		"0.350 0.5 7000000.0 - - - - 100000 tracing █ -")
}

func TestProgramCost(t *testing.T) {
	for _, tt := range []struct {
		cost programCost
		want string
	}{
		{programCost{own: 0.0123, perRun: 45}, "bperf takes 1.230 % of a CPU; counting adds 45 ns a run: 9.000 % of a CPU"},
		{programCost{own: 1.5}, "bperf takes 150.000 % of a CPU; counting adds nothing that can be measured"},
		{programCost{unknown: true}, "bperf takes 0.000 % of a CPU; what counting adds to runs cannot be measured"},
		{programCost{untraced: 3, why: errors.New("no BTF")},
			"bperf takes 0.000 % of a CPU; counting adds nothing that can be measured; no events in 3 programs: no BTF"},
	} {
		if got := tt.cost.text(observation()); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.cost, got, tt.want)
		}
	}
	if got, want := programTotal(&bpfprog.Observation{Window: 1}), "no such BPF program is loaded"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestOrder(t *testing.T) {
	columns := programColumns(events{})
	for _, tt := range []struct {
		column string
		turned bool
		want   []uint64
	}{
		{"cpu", false, []uint64{8, 100000, 7, 9}},
		{"runs", false, []uint64{8, 7, 100000, 9}},
		{"ns", false, []uint64{100000, 8, 7, 9}},
		{"id", false, []uint64{7, 8, 9, 100000}},
		{"type", false, []uint64{9, 7, 100000, 8}},
		{"name", false, []uint64{100000, 8, 7, 9}},
		{"cpu", true, []uint64{9, 7, 100000, 8}},
		{"id", true, []uint64{100000, 9, 8, 7}},
	} {
		rows := programReading(observation(), programCost{}, events{}, nil, nil).Rows
		for i, c := range columns {
			if c.Name == tt.column {
				Order{i, tt.turned}.Sort(columns, rows)
			}
		}
		var got []uint64
		for _, r := range rows {
			got = append(got, r.ID)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s, turned %v: -want +got:\n%s", tt.column, tt.turned, diff)
		}
	}
	equal := []Row{{ID: 3, Cells: []Cell{{}}}, {ID: 2, Cells: []Cell{{}}}}
	if (Order{Turned: true}).Sort(columns, equal); equal[0].ID != 2 {
		t.Error("rows that are equal are not in the order of their IDs")
	}
}

func TestTaskReading(t *testing.T) {
	e := newEvents(list(t, "instructions,cycles:u,cycles,task-clock"), "s")
	r := func(n uint64) perfevent.Reading { return perfevent.Reading{Value: n, Enabled: 5, Running: 5} }
	grown := []named{
		{process.Sum{ID: 7, Time: time.Second, Switches: 10, Readings: []perfevent.Reading{r(3e9), r(1), r(2e9), r(1e9)}}, "spins"},
		{process.Sum{ID: process.Elsewhere, Time: time.Millisecond, Switches: 1, Readings: []perfevent.Reading{{}, {}, {}, r(2e6)}}, "others"},
	}
	expectTexts(t, taskReading(grown, window, process.ByProcess, e), taskColumns(process.ByProcess, e),
		"50.000 5.0 1500M 0.5 1000M 500.0 1.50 7 spins", "0.050 0.5 - - - 1.0 - - others")
	expectTexts(t, taskReading(grown[:1], window, process.ByCgroup, e), taskColumns(process.ByCgroup, e),
		"50.000 5.0 1500M 0.5 1000M 500.0 1.50 7 spins")
	for want, total := range map[string]taskTotal{
		"2 of 9 processes ran, 5.5 switches/s, 50.050 % of a CPU":                                                {"processes", 9, 0},
		"2 of 3 cgroups ran, 5.5 switches/s, 50.050 % of a CPU; there is no room for more: 1.000 % is of others": {"cgroups", 3, 20 * time.Millisecond},
	} {
		if got := total.text(grown, window); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestDifference(t *testing.T) {
	sum := func(time time.Duration, n uint64) process.Sum {
		return process.Sum{ID: 1, Time: time, Switches: n, Readings: []perfevent.Reading{{Value: n, Enabled: n, Running: n}}}
	}
	for _, tt := range []struct{ now, before, want process.Sum }{
		{sum(5, 7), process.Sum{}, sum(5, 7)},
		{sum(5, 7), sum(2, 3), sum(3, 4)},
		{sum(5, 7), sum(6, 1), sum(5, 7)}, // it was forgotten, and is back
	} {
		if diff := cmp.Diff(tt.want, difference(tt.now, tt.before)); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}

func TestAmount(t *testing.T) {
	for v, want := range map[float64]string{0: "0.0", 0.04: "0.0", 12.34: "12.3", 999.94: "999.9", 999.96: "1000", 9999.4: "9999", 9999.5: "10.00k", 12345: "12.35k",
		999_960: "1000k", 9_999_400: "9999k", 1.5e7: "15.00M", 3.21e9: "3210M", 4.5e13: "45.00T", 1e17: "100P"} {
		if got := amount(v); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
}

// TestExamine examines this process and its cgroup.
func TestExamine(t *testing.T) {
	text, err := ExamineProcess(uint64(os.Getpid()))
	if err != nil || !strings.Contains(text, "command      "+os.Args[0]) || !strings.Contains(text, "\nThreads      ") {
		t.Errorf("%v: %s", err, text)
	}
	if _, err := ExamineProcess(1 << 31); err == nil || err.Error() != "process 2147483648 has ended" {
		t.Errorf("got %v", err)
	}
	if _, err := ExamineCgroup(1 << 62); err == nil || err.Error() != "cgroup 4611686018427387904 was removed" {
		t.Errorf("got %v", err)
	}
	dir := t.TempDir()
	for name, content := range map[string]string{"cgroup.procs": "7\n8\n", "comm": "spins\x1b[m\n"} {
		if err := os.MkdirAll(dir+"/7", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dir+"/"+strings.Replace(name, "comm", "7/comm", 1), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err = examineCgroup(dir, "/a", dir)
	if want := "cgroup /a\n2 processes\n      7  spins?[m\n"; err != nil || text != want {
		t.Errorf("%v: %q, want %q", err, text, want)
	}
}
