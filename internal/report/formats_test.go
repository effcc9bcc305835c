package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	pprof "github.com/google/pprof/profile"

	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/test/golden"
)

// nasty are names that break a format without escaping.
var nasty = []string{
	`operator<<(std::ostream&, char const*)`, "semi;colon", "new\nline", "</script><script>alert(1)</script>", "]]><b>", `quo"te'`, "comma,name",
	"tab\tname", "bell\a\x1b[31m", "csi\u009b31m\x7f", "bad\xff\xfeutf8", "größe", " spaces ", "<!--", "&amp;",
}

// mixed returns a profile with frames of all kinds. The values of samples with a leaf in the kernel are multiplied by scale.
func mixed(keep profile.Keys, scale uint64, names ...string) *profile.Profile {
	p := profile.New(keep)
	p.Info = profile.Info{Hostname: "node", Release: "6.12.1", Arch: "x86_64", Command: []string{"bperf", "record", "<&>"},
		Start: time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC), Duration: 2 * time.Second}
	p.Events = []profile.Event{{Name: "cpu-clock", Unit: "ns", Frequency: 1000}}
	p.Losses = profile.Losses{Records: 1, Samples: 2, MissedEstimate: 5, Truncated: 3, Reasons: []profile.Loss{{Reason: "no room: raise -m", Samples: 4}}}
	id := p.Strings.ID
	kernel := p.Modules.ID(profile.Module{Name: id("[kernel.kallsyms]"), Path: id("[kernel.kallsyms]"), BuildID: id("aa")})
	binary := p.Modules.ID(profile.Module{Name: id("server"), Path: id("/usr/bin/server"), BuildID: id("bb"), Order: 1})
	jited := p.Modules.ID(profile.Module{Name: id("bpf_prog_6deef7357e7b4530_count"), Path: id("bpf_prog_6deef7357e7b4530_count"), Order: 2})
	program := p.Programs.ID(profile.Program{ID: 42, Name: id("count"), Tag: id("6deef7357e7b4530")})
	function := func(name string, module profile.ModuleID, start uint64) profile.FunctionID {
		f := profile.Function{Name: id(name), Module: module, Start: start, End: start + 0x100}
		if module == jited {
			f.Program = program
		}
		if module == binary {
			f.File, f.StartLine = id("/src/server.go"), uint32(start/0x10)
		}
		return p.Functions.ID(f)
	}
	frame := func(name string, module profile.ModuleID, start uint64, kind profile.Kind) profile.Frame {
		f := profile.Frame{Function: function(name, module, start), Module: module, Address: start + 4, IP: start + 4, Kind: kind}
		if module == binary {
			f.File, f.Line = id("/src/server.go"), uint32(start/0x10)+3
		}
		return f
	}
	main := p.Frame(frame("main.main", binary, 0x1000, profile.User))
	serve := p.Frame(frame("main.serve", binary, 0x1100, profile.User))
	inlined := frame("main.small", binary, 0x1200, profile.User)
	inlined.Inlined = true
	small := p.Frame(inlined)
	syscall := p.Frame(frame("do_syscall_64", kernel, 0xffffffff81000100, profile.Kernel))
	read := p.Frame(frame("vfs_read", kernel, 0xffffffff81000200, profile.Kernel))
	bpf := p.Frame(frame("bpf_prog_6deef7357e7b4530_count", jited, 0xffffffffc0000100, profile.BPF))
	nowhere := p.Frame(profile.Frame{Address: 0x1234, IP: 0x1234, Kind: profile.User})
	stripped := p.Frame(profile.Frame{Module: binary, Address: 0x2000, IP: 0x402000, Kind: profile.User})
	when := int64(998e6)
	add := func(comm string, tid int32, value uint64, stack ...profile.FrameID) {
		if p.Frames()[stack[0]].Kind != profile.User {
			value *= scale
		}
		p.Add(profile.Sample{Labels: p.Label(profile.Labels{Comm: id(comm), PID: 100, TID: tid, CPU: tid % 2}), Leaf: stack[0], Stack: p.Stacks.ID(stack),
			Time: when, Thread: tid, Count: 1, Value: value})
		when += 1e6
	}
	add("server", 100, 5000, small, serve, main)
	add("server", 101, 7000, serve, main)
	add("server", 101, 3000, bpf, read, syscall, serve, main)
	add("server", 100, 2000, read, syscall, serve, main)
	add("server", 100, 1000, stripped, main)
	add("other", 200, 500, nowhere)
	add("server", 101, 2500, bpf, read, syscall, serve, main)
	for i, name := range names {
		add(name, 300, 100, p.Frame(frame(name, binary, 0x3000+uint64(i)<<8, profile.User)), main)
	}
	return p
}

// textFormats are all text formats, each with the function that writes a profile in it.
var textFormats = []struct {
	name  string
	write func(io.Writer, *profile.Profile, *Options) error
}{
	{"table.txt", Text},
	{"table.csv", WriteCSV},
	{"report.json", func(w io.Writer, p *profile.Profile, o *Options) error {
		data, err := NewJSON(p, o)
		e := printable.JSONEncoder(w)
		e.SetIndent("", " ")
		return errors.Join(err, e.Encode(data))
	}},
	{"stacks.folded", WriteFolded},
	{"flame.svg", func(w io.Writer, p *profile.Profile, o *Options) error { return WriteFlameGraph(w, p, nil, o) }},
	{"flame.html", func(w io.Writer, p *profile.Profile, o *Options) error { return WriteHTML(w, p, nil, o) }},
	{"speedscope.json", WriteSpeedscope},
	{"firefox.json", WriteFirefox},
}

func TestFormats(t *testing.T) {
	for _, f := range textFormats {
		t.Run(f.name, func(t *testing.T) {
			options := &Options{Children: true, CallGraph: defaultCallGraph()}
			var got bytes.Buffer
			if err := f.write(&got, mixed(profile.Comm|profile.Line|profile.TID|profile.PID|profile.Time, 1), options); err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, filepath.Join("testdata", f.name), got.String())
		})
	}
}

// TestKeys writes tables by keys that perf's own reports in testdata/perf do not have.
func TestKeys(t *testing.T) {
	var got bytes.Buffer
	for _, o := range []Options{
		{Sort: []string{"prog"}, Children: true},
		{Sort: []string{"prog", "symbol"}, Filter: Filter{Programs: []string{"42"}}},
		{Sort: []string{"symbol"}, Filter: Filter{Programs: []string{"count"}}, Relative: true},
		{Sort: []string{"symbol"}, Filter: Filter{Programs: []string{"43"}}},
		{Sort: []string{"symbol"}, Filter: Filter{Part: "s_"}},
		{Sort: []string{"cpu", "tgid", "tid"}},
		{Sort: []string{"time"}},
		{Sort: []string{"parent"}, Parent: regexp.MustCompile("^vfs_|serve$")},
		{Sort: []string{"srcline", "srcfile"}},
		{Sort: []string{"srcline", "srcfile"}, FullPaths: true},
		{Sort: []string{"symoff", "symbol_size"}},
		{Sort: []string{"cgroup", "comm"}, Utilization: true},
		{Fields: []string{"dso", "overhead", "period"}, Separator: ","},
		{Widths: []int{20, 2, 0, 9, 1000}},
		{Sort: []string{"comm"}, Parent: regexp.MustCompile("^vfs_")},
		{Sort: []string{"comm", "symbol"}, Filter: Filter{Caller: regexp.MustCompile("^vfs_")}},
		{Fields: []string{"overhead", "parent"}, Filter: Filter{Caller: DefaultParent()}, Parent: DefaultParent()},
		{Widths: []int{20, 2}, Separator: ",", NoHeads: true},
	} {
		keys, err := o.NeededKeys()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&got, "# %s %s\n", o.Sort, o.Programs)
		if err := Text(&got, mixed(keys, 1), &o); err != nil {
			t.Fatal(err)
		}
	}
	golden.Compare(t, filepath.Join("testdata", "keys.txt"), got.String())
}

// TestResolved leaves out samples outside of known functions, also in the sums that percentages relate to.
func TestResolved(t *testing.T) {
	p := mixed(profile.Comm, 1)
	o := Options{Sort: []string{"symbol"}, Filter: Filter{Resolved: true}, NoHeads: true}
	var got bytes.Buffer
	if err := Text(&got, p, &o); err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, filepath.Join("testdata", "resolved.txt"), got.String())
	sum := 0.0
	for line := range strings.Lines(got.String()) {
		var share float64
		if n, _ := fmt.Sscanf(line, "%f%%", &share); n == 1 {
			sum += share
		}
	}
	if math.Abs(sum-100) > 0.02 {
		t.Errorf("the shares add up to %g %%", sum)
	}
}

func TestSetCompute(t *testing.T) {
	for text, want := range map[string]Diff{
		"delta": {Compute: Delta}, "delta-abs": {Compute: AbsoluteDelta}, "ratio": {Compute: Ratio}, "wdiff:1,-2": {Compute: Weighted, Weights: [2]int64{1, -2}},
	} {
		var got Diff
		if err := got.SetCompute(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "cycles", "wdiff", "wdiff:", "wdiff:1", "wdiff:1,2,3", "wdiff:1,x", "ratio:1,2", "wdiff:1,99999999999"} {
		if err := new(Diff).SetCompute(text); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}

func TestCompared(t *testing.T) {
	before, after := mixed(profile.Comm, 1), mixed(profile.Comm, 3)
	t.Run("table", func(t *testing.T) {
		var got bytes.Buffer
		if err := WriteDiff(&got, []*profile.Profile{before, after}, nil, &Options{}, DefaultDiff()); err != nil {
			t.Fatal(err)
		}
		golden.Compare(t, filepath.Join("testdata", "diff.txt"), got.String())
	})
	t.Run("options", func(t *testing.T) {
		var got bytes.Buffer
		some := mixed(profile.Comm, 2)
		some.Events = slices.Clone(some.Events)
		for _, tt := range []struct {
			compute string
			d       Diff
			o       Options
		}{
			{"delta", Diff{Order: 1}, Options{Limit: 20}},
			{"delta-abs", Diff{Order: 0}, Options{Sort: []string{"dso"}}},
			{"delta", Diff{Order: 2, Formulas: true}, Options{Sort: []string{"dso"}}},
			{"ratio", Diff{Order: 1, Formulas: true, Periods: true}, Options{Sort: []string{"dso"}}},
			{"wdiff:1,3", Diff{Order: 1, Formulas: true}, Options{Sort: []string{"dso"}}},
			{"delta-abs", Diff{Order: 1}, Options{Sort: []string{"dso"}, NoHeads: true}},
			{"delta-abs", Diff{Order: 1, Periods: true}, Options{Sort: []string{"dso"}, Separator: "_"}},
		} {
			fmt.Fprintf(&got, "%s %+v\n", tt.compute, tt.d)
			if err := tt.d.SetCompute(tt.compute); err != nil {
				t.Fatal(err)
			}
			if err := WriteDiff(&got, []*profile.Profile{before, after, some}, []string{"a\x1b", "b", "c"}, &tt.o, tt.d); err != nil {
				t.Fatal(err)
			}
		}
		golden.Compare(t, filepath.Join("testdata", "diff-options.txt"), got.String())
	})
	t.Run("rows of one", func(t *testing.T) { // rows that a profile lacks, and an event that one of three lacks
		var got bytes.Buffer
		old, now, other := oneSample("old", 0, "count"), oneSample("new", 0, "count"), oneSample("old", 0, "count")
		other.Events[0].Name = "another"
		for _, d := range []Diff{DefaultDiff(), {Compute: Ratio, Order: 1}, {Compute: Delta, Order: 1, BaselineOnly: true}} {
			if err := WriteDiff(&got, []*profile.Profile{old, now, other}, []string{"old", "new", "other"}, &Options{}, d); err != nil {
				t.Fatal(err)
			}
		}
		golden.Compare(t, filepath.Join("testdata", "diff-rows.txt"), got.String())
	})
	t.Run("letters of several bytes", func(t *testing.T) {
		var got bytes.Buffer
		p := oneSample("größenänderung", 0, "count")
		if err := WriteDiff(&got, []*profile.Profile{p, p}, nil, &Options{}, DefaultDiff()); err != nil {
			t.Fatal(err)
		}
		want := strings.Join([]string{
			"# Event 'event'", "#",
			"# Baseline  Delta Abs  Shared Object   Symbol  ",
			"# ........  .........  ..............  ........", "#",
			"   100.00%     +0.00%  größenänderung  [.] work", "",
		}, "\n")
		if diff := cmp.Diff(want, got.String()); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
	t.Run("flame graph", func(t *testing.T) {
		var got bytes.Buffer
		if err := WriteFlameGraph(&got, after, before, &Options{}); err != nil {
			t.Fatal(err)
		}
		golden.Compare(t, filepath.Join("testdata", "diff.svg"), got.String())
		colour := regexp.MustCompile(`<title>(?:main\.main|bpf_prog_\w+ \(program 42\)).*?class="(up|down)(\d)"`)
		matches := colour.FindAllStringSubmatch(got.String(), -1)
		if len(matches) != 2 || matches[1][1] != "up" || matches[1][2] == "0" {
			t.Errorf("the BPF program, whose share has grown, is not red: %v", matches)
		}
	})
	t.Run("nothing in common", func(t *testing.T) {
		other := mixed(profile.Comm, 1)
		other.Events[0].Name = "cycles"
		if err := WriteDiff(io.Discard, []*profile.Profile{before, other}, nil, &Options{}, DefaultDiff()); err == nil {
			t.Error("profiles of different events were compared")
		}
		if err := WriteFlameGraph(io.Discard, before, other, &Options{}); err == nil {
			t.Error("flame graphs of different events were compared")
		}
	})
}

// TestNames writes names with special characters in each format, and reads the result.
func TestNames(t *testing.T) {
	p := mixed(profile.Comm|profile.TID, 1, nasty...)
	p.Events[0].Name = "event<&>\n"
	written := map[string]string{}
	for _, f := range textFormats {
		var got bytes.Buffer
		if err := f.write(&got, p, &Options{CallGraph: defaultCallGraph()}); err != nil {
			t.Fatalf("%s: %v", f.name, err)
		}
		written[f.name] = got.String()
	}
	t.Run("control characters", func(t *testing.T) {
		for _, name := range slices.Sorted(maps.Keys(written)) {
			if i := strings.IndexFunc(written[name], func(r rune) bool { return r != '\n' && unicode.IsControl(r) }); i >= 0 {
				t.Errorf("%s has a control character: %q", name, written[name][max(i-10, 0):i+5])
			}
		}
	})
	t.Run("folded", func(t *testing.T) {
		line := regexp.MustCompile(`^[^;]*(;[^;]+)* \d+$`)
		for _, got := range strings.Split(strings.TrimSuffix(written["stacks.folded"], "\n"), "\n") {
			if !line.MatchString(got) {
				t.Errorf("%q is no stack and number", got)
			}
		}
		if want := "semi:colon;main.main;semi:colon 100\n"; !strings.Contains(written["stacks.folded"], want) {
			t.Errorf("there is no line %q in\n%s", want, written["stacks.folded"])
		}
	})
	t.Run("SVG", func(t *testing.T) { wellFormed(t, written["flame.svg"]) })
	t.Run("HTML", func(t *testing.T) {
		page := written["flame.html"]
		if n := strings.Count(page, "<script"); n != 1 || strings.Count(page, "</script") != 1 {
			t.Errorf("there are %d scripts, want the one of the page", n)
		}
		if regexp.MustCompile(`(src|href)\s*=|url\(|@import|fetch\(|XMLHttpRequest`).MatchString(page) {
			t.Error("the page may fetch something")
		}
		if !strings.Contains(page, `content="default-src 'none';`) {
			t.Error("the page has no policy that forbids to fetch anything")
		}
		if !strings.Contains(page, "&lt;/script&gt;&lt;script&gt;alert(1)") {
			t.Error("the name of a script is not in the page")
		}
	})
	t.Run("JSON", func(t *testing.T) {
		for _, name := range []string{"report.json", "speedscope.json", "firefox.json"} {
			if !json.Valid([]byte(written[name])) {
				t.Errorf("%s is no JSON", name)
			}
			if !strings.Contains(written[name], `new\nline`) {
				t.Errorf("%s does not have the name with a new line", name)
			}
		}
	})
	t.Run("CSV", func(t *testing.T) {
		records, err := csv.NewReader(strings.NewReader(written["table.csv"])).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]bool{}
		for _, r := range records {
			found[strings.TrimPrefix(r[len(r)-1], "[.] ")] = true
		}
		for _, name := range nasty {
			if !found[printable.Text(name)] {
				t.Errorf("there is no row of %q", name)
			}
		}
	})
	t.Run("pprof", func(t *testing.T) {
		names := map[string]bool{}
		for _, f := range readPprof(t, p, &Options{}).Function {
			names[f.Name] = true
		}
		for _, name := range nasty {
			if !names[name] {
				t.Errorf("there is no function %q", name)
			}
		}
	})
}

// wellFormed parses an XML document.
func wellFormed(t *testing.T, text string) {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(text))
	for {
		_, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func readPprof(t *testing.T, p *profile.Profile, o *Options) *pprof.Profile {
	t.Helper()
	var out bytes.Buffer
	if err := WritePprof(&out, p, o); err != nil {
		t.Fatal(err)
	}
	read, err := pprof.ParseData(out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return read
}

func TestPprof(t *testing.T) {
	read := readPprof(t, mixed(profile.Comm|profile.Line|profile.TID|profile.CPU|profile.Address, 1), &Options{})
	golden.Compare(t, filepath.Join("testdata", "pprof.txt"), read.String())
}

// TestOneEvent checks that formats with room for one event do not choose among several.
func TestOneEvent(t *testing.T) {
	p := load(t, profile.Comm)
	for _, f := range textFormats {
		switch f.name {
		case "stacks.folded", "flame.svg", "firefox.json":
			if err := f.write(io.Discard, p, &Options{}); err == nil || !strings.Contains(err.Error(), "page-faults/period=200/") {
				t.Errorf("%s of several events: %v", f.name, err)
			}
			if err := f.write(io.Discard, p, &Options{Event: "nothing"}); err == nil {
				t.Errorf("%s of an event that is not there: no error", f.name)
			}
			fallthrough
		default:
			if err := f.write(io.Discard, p, &Options{Event: "page-faults/period=200/"}); err != nil {
				t.Errorf("%s of one of several events: %v", f.name, err)
			}
		}
	}
}

// TestSums checks that no format loses a value: its values add up to the sum of the event.
func TestSums(t *testing.T) {
	p := mixed(profile.Comm|profile.TID, 1, nasty...)
	want := p.Events[0].Value
	o := &Options{}
	t.Run("pprof", func(t *testing.T) {
		var sum int64
		for _, s := range readPprof(t, p, o).Sample {
			sum += s.Value[1]
		}
		if uint64(sum) != want {
			t.Errorf("sum %d, want %d", sum, want)
		}
	})
	t.Run("speedscope", func(t *testing.T) {
		var out bytes.Buffer
		var file speedscope
		if err := errors.Join(WriteSpeedscope(&out, p, o), json.Unmarshal(out.Bytes(), &file)); err != nil {
			t.Fatal(err)
		}
		var sum uint64
		for _, each := range file.Profiles {
			if len(each.Samples) != len(each.Weights) || each.Start != 0 {
				t.Errorf("profile %s: %d samples, %d weights, starts at %d", each.Name, len(each.Samples), len(each.Weights), each.Start)
			}
			for i, stack := range each.Samples {
				sum += each.Weights[i]
				for _, f := range stack {
					if f < 0 || f >= len(file.Shared.Frames) {
						t.Errorf("frame %d of %d", f, len(file.Shared.Frames))
					}
				}
			}
			if each.Unit != "nanoseconds" {
				t.Errorf("unit %s", each.Unit)
			}
		}
		if sum != want {
			t.Errorf("sum %d, want %d", sum, want)
		}
	})
	t.Run("firefox", func(t *testing.T) { checkFirefox(t, p, want) })
	t.Run("flame graph", func(t *testing.T) {
		if root := newFlames(p, o, 0); root.value != want {
			t.Errorf("sum %d, want %d", root.value, want)
		}
	})
}

// oneSample returns a profile with one sample of 2000 in a function of a module.
func oneSample(module string, time int64, unit string) *profile.Profile {
	p := profile.New(profile.TID | profile.Time)
	p.Events = []profile.Event{{Name: "event", Unit: unit}}
	addSample(p, module, 1, time)
	return p
}

func addSample(p *profile.Profile, module string, tid int32, time int64) {
	id := p.Strings.ID
	m := p.Modules.ID(profile.Module{Name: id(module), Path: id(module)})
	leaf := p.Frame(profile.Frame{Function: p.Functions.ID(profile.Function{Name: id("work"), Module: m}), Module: m, Kind: profile.User})
	p.Add(profile.Sample{Labels: p.Label(profile.Labels{TID: tid}), Leaf: leaf, Time: time, Count: 1, Value: 2000})
}

// TestTopUnits expects the sum of each event in its unit.
func TestTopUnits(t *testing.T) {
	for unit, want := range map[string]string{
		"ns": "event: 1 samples, 0.000 s\n", "bytes": "event: 1 samples, 2000 bytes\n",
		"count": "event: 1 samples, 2000 events\n", "": "event: 1 samples, 2000 events\n",
	} {
		var got bytes.Buffer
		if err := WriteTop(&got, oneSample("program", 0, unit), &Options{}, 0, 0); err != nil {
			t.Fatal(err)
		}
		if got.String() != want {
			t.Errorf("unit %q: got %q, want %q", unit, &got, want)
		}
	}
}

// TestFirefoxStartsAtZero expects times since the earliest sample, even if that has the time 0.
func TestFirefoxStartsAtZero(t *testing.T) {
	p := oneSample("program", 0, "ns")
	addSample(p, "program", 1, 1e6) // threads with larger values come first
	addSample(p, "program", 2, 5e6)
	var out bytes.Buffer
	var file firefox
	if err := errors.Join(WriteFirefox(&out, p, &Options{}), json.Unmarshal(out.Bytes(), &file)); err != nil {
		t.Fatal(err)
	}
	times := map[int32][]float64{}
	for _, thread := range file.Threads {
		times[thread.TID] = thread.Samples.Time
	}
	if diff := cmp.Diff(map[int32][]float64{1: {0, 1}, 2: {5}}, times); diff != "" {
		t.Errorf("times in ms (-want +got):\n%s", diff)
	}
}

// checkFirefox checks that the tables have the length that they state, and that references between them are valid.
func checkFirefox(t *testing.T, p *profile.Profile, want uint64) {
	t.Helper()
	var out bytes.Buffer
	var file firefox
	if err := errors.Join(WriteFirefox(&out, p, &Options{}), json.Unmarshal(out.Bytes(), &file)); err != nil {
		t.Fatal(err)
	}
	var raw struct {
		Threads []map[string]json.RawMessage `json:"threads"`
	}
	if err := json.Unmarshal(out.Bytes(), &raw); err != nil {
		t.Fatal(err)
	}
	for _, thread := range raw.Threads {
		for _, name := range []string{"samples", "markers", "stackTable", "frameTable", "funcTable", "resourceTable", "nativeSymbols"} {
			checkColumns(t, name, thread[name])
		}
	}
	sum := 0.0
	for _, thread := range file.Threads {
		for i, w := range thread.Samples.Weight {
			sum += w * 1e6
			if s := thread.Samples.Stack[i]; s == nil || *s >= thread.StackTable.Length {
				t.Errorf("thread %s: sample %d has no stack", thread.Name, i)
			}
		}
		for i, prefix := range thread.StackTable.Prefix {
			if prefix != nil && *prefix >= i {
				t.Errorf("thread %s: stack %d comes before its prefix %d", thread.Name, i, *prefix)
			}
			f := thread.StackTable.Frame[i]
			function := thread.FrameTable.Func[f]
			if name := thread.FuncTable.Name[function]; name >= len(thread.StringArray) {
				t.Errorf("thread %s: function %d has no name", thread.Name, function)
			}
			if r := thread.FuncTable.Resource[function]; r >= thread.ResourceTable.Length || r >= 0 && thread.ResourceTable.Lib[r] >= len(file.Libs) {
				t.Errorf("thread %s: function %d has no resource", thread.Name, function)
			}
		}
	}
	if got := uint64(sum + 0.5); got != want {
		t.Errorf("sum %d, want %d", got, want)
	}
}

// checkColumns checks that all columns of a table have the table's length.
func checkColumns(t *testing.T, name string, table json.RawMessage) {
	t.Helper()
	var columns map[string]json.RawMessage
	var length int
	if err := errors.Join(json.Unmarshal(table, &columns), json.Unmarshal(columns["length"], &length)); err != nil {
		t.Fatalf("table %s: %v", name, err)
	}
	for column, values := range columns {
		var list []any
		if err := json.Unmarshal(values, &list); err != nil {
			continue // a number or a word
		}
		if list == nil || len(list) != length {
			t.Errorf("table %s: column %s has %d values, want %d", name, column, len(list), length)
		}
	}
}
