package script

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bperf/bperf/internal/replay"
	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/golden"
	"github.com/bperf/bperf/test/require"
)

// elsewhere lets a replay find only the symbols in the recording, so that the result is the same on all machines.
func elsewhere(t testing.TB) replay.Options {
	return replay.Options{NoInline: true, SymFS: t.TempDir(), BuildIDs: t.TempDir(), Kallsyms: filepath.Join(t.TempDir(), "none")}
}

// TestGolden prints recordings without the symbols of the recorded machine.
func TestGolden(t *testing.T) {
	everything := Records{Mmap: true, Task: true, BPF: true, Switch: true, Namespace: true, Cgroup: true, Lost: true, Round: true, TextPoke: true}
	tests := []struct {
		name, fixture string
		fields        string
		o             Options
	}{
		{"callchain", "callchain", "", Options{}},
		{"group", "group", "", Options{}},
		{"tracepoint", "tracepoint", "", Options{}},
		{"pipetracepoint", "pipetracepoint", "", Options{}},
		{"records", "bpf", "", Options{Records: everything}},
		{"registers", "regs", "+uregs,+iregs", Options{}},
		{"json", "callchain", "", Options{JSON: true}},
		{"tracepoint-json", "tracepoint", "", Options{JSON: true}},
		{"fields", "callchain", "comm,pid,tid,time,ip,misc", Options{Nanos: true, Relative: true, NoChains: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.o.Fields = NewSelection()
			if tt.fields != "" {
				if err := tt.o.Fields.Parse(tt.fields); err != nil {
					t.Fatal(err)
				}
			}
			got := printed(t, filepath.Join("../../perfdata/testdata", tt.fixture+".data"), tt.o, elsewhere(t))
			golden.Compare(t, filepath.Join("testdata", tt.name+".golden"), string(got))
		})
	}
}

// TestParts prints callchains up to a function, and the samples in a file.
func TestParts(t *testing.T) {
	ro := elsewhere(t)
	ro.Kallsyms = filepath.Join(t.TempDir(), "kallsyms")
	if err := os.WriteFile(ro.Kallsyms, []byte("ffffffff81000000 T _text\nffffffff815e4000 t faults\nffffffff815eb000 t callers\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	chains := func(o Options) [][]string { // the lines of each sample
		o.Fields = NewSelection()
		out := string(printed(t, "../../perfdata/testdata/callchain.data", o, ro))
		var all [][]string
		for sample := range strings.SplitAfterSeq(out, "\n\n") {
			if sample != "" {
				all = append(all, strings.Split(strings.TrimSpace(sample), "\n"))
			}
		}
		return all
	}
	stopped := chains(Options{StopAt: []string{"nothing", "faults"}})
	cut := 0
	for i, lines := range chains(Options{}) {
		if at := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, " faults+") }); at >= 0 && at+1 < len(lines) {
			lines = lines[:at+1]
			cut++
		}
		if !slices.Equal(stopped[i], lines) {
			t.Errorf("with StopAt:\n%s\nwant\n%s", strings.Join(stopped[i], "\n"), strings.Join(lines, "\n"))
		}
	}
	if cut == 0 {
		t.Error("no callchain was cut")
	}
	addresses := func(o Options) int { return len(chains(o)) }
	const first = 0xffffffff8168bad1 // of the first sample
	if one, next := addresses(Options{Addresses: []uint64{first}}), addresses(Options{Addresses: []uint64{first - 16}, Range: 17}); one != 1 || next != 1 {
		t.Errorf("%d samples at the address, %d in the range; want one each", one, next)
	}
	if n := addresses(Options{Addresses: []uint64{first - 16}, Range: 16}); n != 0 {
		t.Errorf("%d samples in a range that ends before the address", n)
	}
	if all := addresses(Options{Symbols: []string{"nothing"}, Addresses: []uint64{first, first + 1}}); all != 1 {
		t.Errorf("%d samples at the addresses, want one", all)
	}
	const loader = "(/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2)"
	in := func(all [][]string) (n int) {
		for _, lines := range all {
			if strings.HasSuffix(lines[1], loader) {
				n++
			}
		}
		return n
	}
	chosen, all := chains(Options{DSOs: []string{"ld-linux-x86-64.so.2"}}), chains(Options{})
	if in(chosen) != len(chosen) || in(all) != len(chosen) || len(all) == len(chosen) {
		t.Errorf("of %d samples %d are in the loader; %d were chosen, of which %d are", len(all), in(all), len(chosen), in(chosen))
	}
}

// TestJSONIsAnObjectALine parses the JSON output.
func TestJSONIsAnObjectALine(t *testing.T) {
	out := printed(t, "../../perfdata/testdata/callchain.data", Options{Fields: NewSelection(), JSON: true}, elsewhere(t))
	lines := 0
	for line := range bytes.Lines(out) {
		var sample struct {
			Comm      string
			Callchain []struct{ Address, Kind string }
		}
		if err := json.Unmarshal(line, &sample); err != nil || sample.Comm == "" || len(sample.Callchain) == 0 {
			t.Fatalf("%s: %v", line, err)
		}
		lines++
	}
	if lines == 0 {
		t.Error("there are no samples")
	}
}

func TestSelectionErrors(t *testing.T) {
	for _, tt := range []struct{ fields, want string }{
		{"foo", `there is no field "foo"`},
		{"+metric", "only perf has metric: bperf computes metrics of counts, not of samples; use bperf stat"},
		{"xx:comm", `"xx" is no kind of events`},
		{"", "none are named"},
		{"comm,+ip", "either all fields have + or -"},
		{"hw:trace", `hardware events have no "trace"`},
	} {
		err := NewSelection().Parse(tt.fields)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("-F %q: %v, want %s", tt.fields, err, tt.want)
		}
	}
}

func TestMissingInRecording(t *testing.T) {
	for _, fields := range []string{"+addr", "+weight", "+iregs", "+phys_addr", "comm,symoff", "comm,srcline", "+tod"} {
		reader, err := perfdata.Open("../../perfdata/testdata/callchain.data")
		if err != nil {
			t.Fatal(err)
		}
		o := Options{Fields: NewSelection()}
		if err := o.Fields.Parse(fields); err != nil {
			t.Fatal(err)
		}
		if _, err := Print(io.Discard, reader, o, elsewhere(t)); err == nil {
			t.Errorf("-F %s: no error", fields)
		}
		_ = reader.Close()
	}
}

// TestWithoutBranches prints the rest of samples that have no branches, as perf does.
func TestWithoutBranches(t *testing.T) {
	reader, err := perfdata.Open("../../perfdata/testdata/callchain.data")
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	o := Options{Fields: NewSelection(), NoChains: true}
	if err := o.Fields.Parse("comm,brstack,brstacksym"); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	stats, err := Print(&out, reader, o, elsewhere(t))
	if err != nil || len(stats.Problems) == 0 || !strings.Contains(stats.Problems[0], "have no branches, so brstack,brstacksym is not printed") {
		t.Errorf("%v, %q", err, stats.Problems)
	}
	if lines := strings.Fields(out.String()); len(lines) == 0 || slices.ContainsFunc(lines, func(l string) bool { return l != lines[0] }) {
		t.Errorf("printed:\n%s", &out)
	}
}

// FuzzPrint prints damaged recordings: printing may fail but must not panic.
func FuzzPrint(f *testing.F) {
	require.NoKernel(f)
	for _, name := range []string{"bpf", "callchain", "group", "tracepoint", "pipetracepoint", "regs", "pipe"} {
		data, err := os.ReadFile(filepath.Join("../../perfdata/testdata", name+".data"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		for at := 7; at < len(data); at += len(data)/8 + 1 {
			bad := bytes.Clone(data)
			bad[at] ^= 0x41
			f.Add(bad)
			f.Add(data[:at])
		}
	}
	ro := elsewhere(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		for i := range 3 {
			reader, err := perfdata.NewReader(bytes.NewReader(data), int64(len(data)))
			if err != nil {
				return
			}
			o := Options{Fields: NewSelection(), JSON: i == 1, Dump: i == 2, AttrText: func(*perfdata.Attr) string { return "" }, Records: Records{Mmap: true, Task: true, BPF: true, TextPoke: true, Namespace: true}}
			_, _ = Print(io.Discard, reader, o, ro)
			_ = reader.Close()
		}
	})
}

// TestDamagedFormats prints tracepoints with unreadable formats: only their fields are missing.
func TestDamagedFormats(t *testing.T) {
	data, err := os.ReadFile("../../perfdata/testdata/tracepoint.data")
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(data, []byte("\x17\x08\x44tracing"))
	if at < 0 {
		t.Fatal("the recording has no formats")
	}
	print := func() (string, replay.Stats) {
		reader, err := perfdata.NewReader(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		var out bytes.Buffer
		stats, err := Print(&out, reader, Options{Fields: NewSelection()}, elsewhere(t))
		if err != nil {
			t.Fatal(err)
		}
		return out.String(), stats
	}
	whole, _ := print()
	data[at] = 0
	rest, stats := print()
	if strings.Count(rest, "\n") != strings.Count(whole, "\n") || len(stats.Damaged) != 1 {
		t.Errorf("damaged: %v; printed:\n%s", stats.Damaged, rest)
	}
}
