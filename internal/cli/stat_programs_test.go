package cli

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"

	"github.com/bperf/bperf/test/program"
	"github.com/bperf/bperf/test/require"
)

// sid1000 is a program that calls getsid a thousand times.
var sid1000 = program.Program{Body: program.GetSID, Times: 1000}

// onGetSID loads a BPF program that runs at each getsid of the machine, which only the tests call. It returns the program's name in
// reports, and its ID.
func onGetSID(t *testing.T, name string, hasBTF bool) (label, id string) {
	t.Helper()
	require.Tracefs(t)
	first := asm.Mov.Imm(asm.R0, 1).WithSymbol(name) // if it returned 0, nobody could count the tracepoint
	if hasBTF {
		proto := &btf.FuncProto{Return: &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed},
			Params: []btf.FuncParam{{Name: "context", Type: &btf.Pointer{Target: &btf.Void{}}}}}
		first = btf.WithFuncMetadata(first, &btf.Func{Name: name, Type: proto, Linkage: btf.GlobalFunc})
	}
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: name, Type: ebpf.TracePoint, License: "GPL",
		Instructions: asm.Instructions{first, asm.Return()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	l, err := link.Tracepoint("syscalls", "sys_enter_getsid", p, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	info, err := p.Info()
	if err != nil {
		t.Fatal(err)
	}
	n, _ := info.ID()
	return fmt.Sprintf("%s[%d]", name, n), fmt.Sprint(n)
}

// programRow is a line of the JSON of -b.
type programRow struct {
	Interval float64
	CPU      string
	Value    string `json:"counter-value"`
	Event    string
	Program  string
	Reason   string
	Runs     *float64
	Min      *float64 `json:"run-min"`
	Median   *float64 `json:"run-median"`
	Max      *float64 `json:"run-max"`
	Mean     *float64 `json:"run-mean"`
	Probes   *float64 `json:"run-probes"`
}

// programRows runs bperf stat -j and returns its rows.
func programRows(t *testing.T, args ...string) (rows []programRow) {
	t.Helper()
	got := run(t, bperf(append([]string{"stat", "-j"}, args...)...))
	if got.status != 0 {
		t.Fatalf("status %d, stderr:\n%s", got.status, got.stderr)
	}
	for line := range strings.Lines(got.stderr) {
		var r programRow
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if r.Event != "" {
			rows = append(rows, r)
		}
	}
	return rows
}

// value returns the sum of an event over all rows of a program, or of all programs for "".
func value(t *testing.T, rows []programRow, event, program string) (sum float64) {
	t.Helper()
	for _, r := range rows {
		if r.Event != event || program != "" && r.Program != program {
			continue
		}
		v, err := strconv.ParseFloat(r.Value, 64)
		if err != nil {
			t.Fatalf("%+v: %v", r, err)
		}
		sum += v
	}
	return sum
}

// TestStatPrograms counts programs that run a known number of times, even if the kernel refuses to trace them.
func TestStatPrograms(t *testing.T) {
	a, first := onGetSID(t, "first_program_with_a_long_name", true)
	b, second := onGetSID(t, "second", true)
	call := sid1000.Write(t)
	both := first + "," + second
	const few = "-e page-faults " // the kernel verifies programs for each event: of the default ones that takes a second in an emulated guest
	for name, test := range map[string]struct {
		args  string
		a, b  float64
		total float64
		host  bool // does not depend on the kernel
	}{
		"one":        {few + "-b " + first, 1000, 0, 1000, false},
		"twice":      {few + "-b " + first + "," + first, 1000, 0, 1000, true},
		"by name":    {few + "-b name:first_program_with_*", 1000, 0, 1000, true},
		"two":        {"-b " + both, 1000, 1000, 2000, false},
		"sum":        {few + "--sum -b " + both, 0, 0, 2000, true},
		"all CPUs":   {few + "-a -b " + both, 1000, 1000, 2000, false},
		"each CPU":   {few + "-A -b " + both, 1000, 1000, 2000, true},
		"each core":  {few + "--per-core -b " + both, 1000, 1000, 2000, true},
		"intervals":  {few + "-I 100 -b " + both, 1000, 1000, 2000, false},
		"repeated":   {few + "-r 2 -b " + both, 1000, 1000, 2000, true},
		"no metrics": {"-e duration_time,cpu-clock,{page-faults,dummy} -b " + first, 1000, 0, 1000, false},
	} {
		t.Run(name, func(t *testing.T) {
			if test.host {
				require.NoKernel(t)
			}
			rows := programRows(t, append(strings.Fields(test.args), call)...)
			if got := value(t, rows, "bpf-runs", a); got != test.a {
				t.Errorf("%s: %v runs, want %v", a, got, test.a)
			}
			if got := value(t, rows, "bpf-runs", b); got != test.b {
				t.Errorf("%s: %v runs, want %v", b, got, test.b)
			}
			if got := value(t, rows, "bpf-runs", ""); got != test.total {
				t.Errorf("%v runs, want %v", got, test.total)
			}
			if value(t, rows, "bpf-run-time", "") == 0 {
				t.Error("no run time")
			}
		})
	}
	t.Run("delayed for ever", func(t *testing.T) {
		rows := programRows(t, "-e", "page-faults", "-D", "1000000", "-b", first, call)
		if r := rows[len(rows)-3]; r.Event != "bpf-runs" || r.Value != "<not counted>" {
			t.Errorf("%+v", r)
		}
	})
	t.Run("text", func(t *testing.T) {
		got := run(t, bperf("stat", "-e", "page-faults", "-b", first, call))
		want := regexp.MustCompile(`(?s)^\n Performance counter stats for 'BPF program ` + regexp.QuoteMeta(a) + `':\n.* 1,000      bpf-runs +` +
			regexp.QuoteMeta(a) + ` .*seconds time elapsed\n`)
		if got.status != 0 || !want.MatchString(got.stderr) {
			t.Errorf("status %d:\n%s\nwant %s", got.status, got.stderr, want)
		}
	})
}

// TestStatProgramsTraced checks the statistics of single runs.
func TestStatProgramsTraced(t *testing.T) {
	a, first := onGetSID(t, "traced", true)
	call := sid1000.Write(t)
	rows := programRows(t, "-e", "cpu-clock,page-faults", "-b", first, call)
	if reason := rows[0].Reason; reason != "" {
		if require.IsGuest() {
			t.Fatal(reason)
		}
		t.Skip(reason)
	}
	dropped := value(t, rows, "bpf-dropped", a)
	for _, r := range rows[:2] {
		if r.Runs == nil || r.Min == nil || r.Median == nil || r.Mean == nil || r.Max == nil || r.Probes == nil {
			t.Fatalf("%+v", r)
		}
		if *r.Runs != 1000-dropped || *r.Min > *r.Median || *r.Median > *r.Max || *r.Min > *r.Mean || *r.Mean > *r.Max {
			t.Errorf("%s: %v runs of 1000, %v dropped: min %v, median %v, max %v, mean %v", r.Event, *r.Runs, dropped, *r.Min, *r.Median, *r.Max, *r.Mean)
		}
		if *r.Probes > *r.Max || (*r.Probes > 0) != (r.Event == "cpu-clock") {
			t.Errorf("%s: %v of each run are the probes', of at most %v", r.Event, *r.Probes, *r.Max)
		}
		v, err := strconv.ParseFloat(r.Value, 64)
		if err != nil {
			t.Fatal(err)
		}
		if r.Event == "cpu-clock" {
			v *= 1e6
		}
		if mean := v / *r.Runs; *r.Mean < mean-0.01 || *r.Mean > mean+0.01 {
			t.Errorf("%s: mean %v of %v in %v runs", r.Event, *r.Mean, v, *r.Runs)
		}
	}
	t.Run("default events", func(t *testing.T) { // needs more tracing programs than the kernel allows, unless events share them
		rows := programRows(t, "-b", first, call)
		for _, e := range []string{"cpu-clock", "context-switches", "cpu-migrations", "page-faults"} {
			i := slices.IndexFunc(rows, func(r programRow) bool { return r.Event == e })
			if i < 0 || rows[i].Reason != "" || rows[i].Runs == nil || *rows[i].Runs == 0 {
				t.Errorf("%s: %+v", e, rows)
			}
		}
	})
	t.Run("calibrate", func(t *testing.T) {
		got := run(t, bperf("stat", "--calibrate", "-e", "cpu-clock,dummy", "-b", first, call))
		want := regexp.MustCompile(`subtracted from each run as the probes' own: [1-9]\d* ns cpu-clock, 0 dummy\n`)
		if got.status != 0 || !want.MatchString(got.stderr) {
			t.Errorf("%s\nwant %s", got.stderr, want)
		}
	})
	t.Run("csv", func(t *testing.T) {
		got := run(t, bperf("stat", "-x,", "-e", "dummy", "-b", first, call))
		want := regexp.MustCompile(`^0,,dummy,` + regexp.QuoteMeta(a) + `,\d+,100\.00,0\.00,dummy_per_run,(1000|99\d),0\.000,0,0,0,0,0,\n`)
		if !want.MatchString(got.stderr) {
			t.Errorf("%s\nwant %s", got.stderr, want)
		}
	})
	t.Run("text", func(t *testing.T) {
		got := run(t, bperf("stat", "-e", "dummy", "-b", first, call))
		want := regexp.MustCompile(`\n +mean +min +median +p90 +p99 +max per run\n +0\.000 +0 +0 +0 +0 +0 +dummy +` + regexp.QuoteMeta(a) +
			`\n\n Of each run, bperf's own probes count: 0 dummy \(--calibrate takes that off\)\n`)
		if !want.MatchString(got.stderr) {
			t.Errorf("%s\nwant %s", got.stderr, want)
		}
	})
}

// TestStatProgramsWithoutBTF expects the kernel's statistics, and the reason why the program cannot be traced.
func TestStatProgramsWithoutBTF(t *testing.T) {
	a, first := onGetSID(t, "plain", false)
	rows := programRows(t, "-e", "cpu-clock", "-b", first, sid1000.Write(t))
	if value(t, rows, "bpf-runs", a) != 1000 || value(t, rows, "bpf-run-time", a) == 0 {
		t.Errorf("%+v", rows)
	}
	for _, i := range []int{0, len(rows) - 1} {
		if r := rows[i]; r.Value != "<not supported>" || !strings.Contains(r.Reason, "BTF") {
			t.Errorf("%+v", r)
		}
	}
}

// TestStatFunctions counts functions separately, or expects the reason why the kernel refuses to trace them.
func TestStatFunctions(t *testing.T) {
	a, first := onGetSID(t, "whole", true)
	call := sid1000.Write(t)
	for _, flags := range []string{"--bpf-func wh?le", "--per-func", "--bpf-func *"} {
		rows := programRows(t, append(strings.Fields(flags), "-e", "page-faults", "-b", first, call)...)
		if got := value(t, rows, "bpf-runs", a+":whole"); got != 1000 {
			t.Errorf("%s: %v runs, want 1000", flags, got)
		}
	}
	if got := run(t, bperf("stat", "-b", first, "--bpf-func", "other", call)); got.status != 1 || !strings.Contains(got.stderr, `matches "other"`) {
		t.Errorf("status %d: %s", got.status, got.stderr)
	}
}
