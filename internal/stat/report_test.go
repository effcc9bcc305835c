package stat

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bperf/bperf/internal/count/recorded"
	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/golden"
	"github.com/bperf/bperf/test/require"
)

const recordings = "../count/recorded/testdata"

// reported returns what Report prints of a recording, and its notes.
func reported(t testing.TB, r *perfdata.Reader, cfg ReportConfig, form func(io.Writer, OutputOptions) Printer) (string, error) {
	t.Helper()
	defer r.Close()
	var out bytes.Buffer
	cfg.Printer = func(o OutputOptions) Printer { return form(&out, o) }
	cfg.Notify = func(s string) { out.WriteString("note: " + s + "\n") }
	err := Report(r, cfg)
	return out.String(), err
}

func open(t testing.TB, name string) *perfdata.Reader {
	t.Helper()
	r, err := perfdata.Open(filepath.Join(recordings, name+".data"))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func by(a Aggregation) *Aggregation { return &a }

// TestReport prints recordings of perf 6.1 and 7.2.
func TestReport(t *testing.T) {
	require.NoKernel(t)
	for name, tt := range map[string]struct {
		recording string
		by        *Aggregation
		level     int
	}{
		"6-cpu":                {recording: "6-cpu"},
		"6-interval":           {recording: "6-interval"},
		"6-thread":             {recording: "6-thread"},
		"7-core":               {recording: "7-core"},
		"7-pipe":               {recording: "7-pipe"},
		"7-thread":             {recording: "7-thread"},
		"7-thread-whole":       {recording: "7-thread", by: by(AggregateGlobal)},
		"7-thread-cpu":         {recording: "7-thread", by: by(AggregateNone)},
		"6-cpu-core":           {recording: "6-cpu", by: by(AggregateCore)},
		"6-cpu-thread":         {recording: "6-cpu", by: by(AggregateThread)},
		"6-interval-socket":    {recording: "6-interval", by: by(AggregateSocket)},
		"6-interval-node":      {recording: "6-interval", by: by(AggregateNode)},
		"7-core-cpu":           {recording: "7-core", by: by(AggregateNone)},
		"7-core-die":           {recording: "7-core", by: by(AggregateDie)},
		"7-core-cache":         {recording: "7-core", by: by(AggregateCache)},
		"7-core-cache-level-2": {recording: "7-core", by: by(AggregateCache), level: 2},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := ReportConfig{Aggregation: tt.by, CacheLevel: tt.level, Output: OutputOptions{Separator: ","}}
			var all strings.Builder
			for _, form := range []func(io.Writer, OutputOptions) Printer{NewText, NewCSV, NewJSON} {
				text, err := reported(t, open(t, tt.recording), cfg, form)
				if err != nil {
					t.Fatal(err)
				}
				all.WriteString(text)
			}
			golden.Compare(t, filepath.Join("testdata", "report", name+".golden"), all.String())
		})
	}
}

// TestReportFails reports recordings that cannot be reported as asked.
func TestReportFails(t *testing.T) {
	require.NoKernel(t)
	samples, err := perfdata.Open("../../perfdata/testdata/callchain.data")
	if err != nil {
		t.Fatal(err)
	}
	for want, tt := range map[string]struct {
		reader *perfdata.Reader
		by     Aggregation
		level  int
	}{
		"the recording has no counts: bperf stat record makes one that has":      {reader: samples},
		"the recording does not say which CPUs belong together":                  {reader: open(t, "7-pipe"), by: AggregateCore},
		"the recording does not say which CPUs share such a cache":               {reader: open(t, "7-core"), by: AggregateCache, level: 4},
		"the recording ends before its first round of counts: stat record was k": {reader: made(t, stat(1, 0, 5))},
	} {
		text, err := reported(t, tt.reader, ReportConfig{Aggregation: by(tt.by), CacheLevel: tt.level}, NewText)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q, %v, want %s", text, err, want)
		}
	}
}

// stat returns a reading.
func stat(id uint64, cpu int32, value uint64) *perfdata.Stat {
	return &perfdata.Stat{ID: id, CPU: cpu, Value: value, Enabled: 1000, Running: 1000}
}

var final = &perfdata.StatRound{Type: 1, Time: 1e9}

// made returns a recording of two events, with the IDs 1 and 2, and one without.
func made(t testing.TB, records ...perfdata.Value) *perfdata.Reader {
	t.Helper()
	software := func(config uint64) perfdata.Attr { return perfdata.Attr{Type: perfdata.TypeSoftware, Config: config} }
	var pipe bytes.Buffer
	w, err := perfdata.NewPipeWriter(&pipe, perfdata.Options{Events: []*perfdata.Event{
		{Attr: software(perfdata.SoftwarePageFaults), Name: "faults", IDs: []uint64{1, 3}},
		{Attr: software(perfdata.SoftwareCPUMigrations), Name: "mig\x1b[31mrations", IDs: []uint64{2}},
		{Attr: perfdata.Attr{Type: perfdata.TypeHardware}}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		w.Write(0, r)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := perfdata.NewPipeReader(&pipe)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestReportHostile reports recordings that no perf makes.
func TestReportHostile(t *testing.T) {
	require.NoKernel(t)
	term := func(tag, value uint64) perfdata.StatConfigTerm {
		return perfdata.StatConfigTerm{Tag: tag, Value: value}
	}
	config := func(terms ...perfdata.StatConfigTerm) perfdata.Value { return &perfdata.StatConfig{Terms: terms} }
	const none, interval = recorded.TagAggregation, recorded.TagInterval
	cpus := &perfdata.CPUMap{}
	for cpu := range 30000 {
		cpus.CPUs = append(cpus.CPUs, cpu)
	}
	for name, records := range map[string][]perfdata.Value{
		"unknown-id":          {stat(7, 0, 5), stat(1, 0, 5), stat(1, -7, 6), &perfdata.Stat{ID: 1, Thread: 9}, final},
		"unknown-aggregation": {config(term(none, 99)), stat(1, 0, 5), final},
		"unknown-cpu":         {config(term(none, 0), term(interval, 100)), cpus, stat(1, 2147483647, 5), final},
		"no-readings":         {final, final},
		"counts-backwards":    {config(term(interval, 10)), stat(2, 0, 5), &perfdata.StatRound{Time: 5}, stat(2, 0, 4), &perfdata.StatRound{Time: 3}},
		"no-scale":            {config(term(recorded.TagScale, 0)), &perfdata.Stat{ID: 1, Value: 5, Enabled: 10, Running: 5}, final},
		"twice":               {stat(1, 0, 5), stat(1, 0, 6), stat(3, 1, 1), final, stat(1, 0, 7), final},
		"threads": {config(term(none, 5)), &perfdata.ThreadMap{Threads: []perfdata.MappedThread{{TID: 7, Comm: "\x1b[2J"}, {TID: -1}}},
			stat(1, -1, 5), &perfdata.Stat{ID: 1, CPU: -1, Thread: 1, Value: 6, Enabled: 5, Running: 5}, final},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := reported(t, made(t, records...), ReportConfig{}, NewText)
			if err != nil {
				t.Fatal(err)
			}
			lines := slices.Collect(strings.Lines(text))
			if len(lines) > 100 {
				text = strings.Join(slices.Concat(lines[:10], []string{"…\n"}, lines[len(lines)-10:]), "")
			}
			golden.Compare(t, filepath.Join("testdata", "report", "hostile-"+name+".golden"), text)
		})
	}
	if _, err := reported(t, made(t, &perfdata.StatRound{Time: 1 << 63}), ReportConfig{}, NewText); err == nil {
		t.Error("a round at a time that does not exist is no error")
	}
}

// TestReportCut reports the start of a recording.
func TestReportCut(t *testing.T) {
	require.NoKernel(t)
	data, err := os.ReadFile(filepath.Join(recordings, "7-pipe.data"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := perfdata.NewPipeReader(bytes.NewReader(data[:len(data)-400]))
	if err != nil {
		t.Fatal(err)
	}
	text, err := reported(t, r, ReportConfig{}, NewText)
	if err != nil || strings.Count(text, "task-clock") != 2 || !strings.HasSuffix(text, "note: the recording is incomplete: it was cut, or its writer was killed\n") {
		t.Errorf("%v\n%s", err, text)
	}
}

// TestReportRounds reports rounds without readings, which would print the events without readings each time.
func TestReportRounds(t *testing.T) {
	require.NoKernel(t)
	records := []perfdata.Value{&perfdata.StatConfig{Terms: []perfdata.StatConfigTerm{{Tag: recorded.TagAggregation, Value: 0}}}, &perfdata.CPUMap{CPUs: make([]int, 20000)}}
	for cpu := range records[1].(*perfdata.CPUMap).CPUs {
		records[1].(*perfdata.CPUMap).CPUs[cpu] = cpu
	}
	records = append(records, stat(1, 0, 5))
	for range 1000 {
		records = append(records, &perfdata.StatRound{Time: 5})
	}
	var lines lineCounter
	var notes []string
	cfg := ReportConfig{Printer: func(o OutputOptions) Printer { return NewText(&lines, o) }, Notify: func(s string) { notes = append(notes, s) }}
	if err := Report(made(t, records...), cfg); err != nil {
		t.Fatal(err)
	}
	if lines == 0 || lines > 2e6 {
		t.Errorf("%d lines", lines)
	}
	if !slices.ContainsFunc(notes, func(s string) bool {
		return strings.HasSuffix(s, " rounds are without the events that have no readings: there are too many")
	}) {
		t.Errorf("notes: %q", notes)
	}
}

// lineCounter counts the lines that are written to it.
type lineCounter int

func (n *lineCounter) Write(p []byte) (int, error) {
	*n += lineCounter(bytes.Count(p, []byte("\n")))
	return len(p), nil
}

// TestRecordedAggregation reads the aggregation as perf of several versions numbered it.
func TestRecordedAggregation(t *testing.T) {
	require.NoKernel(t)
	for _, tt := range []struct {
		version string
		level   bool
		value   uint64
		want    Aggregation
	}{
		{"6.1.176", false, 4, AggregateCore}, {"6.1.176", false, 5, AggregateThread}, {"6.1.176", false, 7, AggregateNode},
		{"6.6.1", true, 4, AggregateCache}, {"6.6.1", true, 5, AggregateCore}, {"6.6.1", true, 8, AggregateNode},
		{"7.2.12", true, 4, AggregateCluster}, {"7.2.12", true, 6, AggregateCore}, {"6.10.3", true, 9, AggregateNode},
		{"bperf 1.0", true, 7, AggregateThread}, {"", true, 0, AggregateNone}, {"", false, 1, AggregateGlobal},
	} {
		got, known := recordedAggregation(&recorded.Config{Aggregation: tt.value, HasLevel: tt.level}, tt.version)
		if got != tt.want || !known {
			t.Errorf("%d of perf %s: %v, %v, want %v", tt.value, tt.version, got, known, tt.want)
		}
	}
	for _, unset := range []uint64{8, 10, 1 << 63} {
		if got, known := recordedAggregation(&recorded.Config{Aggregation: unset, HasLevel: true}, "7.2"); got != AggregateGlobal || known {
			t.Errorf("%d: %v, %v", unset, got, known)
		}
	}
}

// TestReportsAsPerf compares values, units, events and places with perf's own report of recordings that perf 6.1 made.
func TestReportsAsPerf(t *testing.T) {
	require.NoKernel(t)
	perf := require.Perf(t)
	metric := regexp.MustCompile(` +#  .*$`) // perf computes other metrics, and those of intervals wrongly
	subject := regexp.MustCompile(`stats for .*`)
	for _, name := range []string{"6-cpu", "6-interval", "6-thread"} {
		cmd := exec.Command(perf, "stat", "report", "-i", filepath.Join(recordings, name+".data"))
		var want bytes.Buffer
		cmd.Stderr = &want
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v\n%s", err, &want)
		}
		got, err := reported(t, open(t, name), ReportConfig{}, NewText)
		if err != nil {
			t.Fatal(err)
		}
		fields := func(text string) (lines [][]string) {
			for line := range strings.Lines(text) {
				line = subject.ReplaceAllString(metric.ReplaceAllString(strings.TrimRight(line, " \n"), ""), "stats")
				if f := strings.Fields(line); len(f) > 0 && !strings.Contains(line, ": not ") {
					lines = append(lines, f)
				}
			}
			return lines
		}
		a, b := fields(want.String()), fields(got)
		slices.SortFunc(a, slices.Compare[[]string]) // perf sorts threads by their counts
		slices.SortFunc(b, slices.Compare[[]string])
		if !slices.EqualFunc(a, b, slices.Equal[[]string]) || len(a) < 4 {
			t.Errorf("%s: perf:\n%s\nbperf:\n%s", name, &want, got)
		}
	}
}

// FuzzReport searches for recordings that make Report panic, or hang.
func FuzzReport(f *testing.F) {
	f.Add(uint64(0), uint64(1), uint64(3), int32(0), int32(0), uint64(5), uint64(1), int64(0))
	f.Add(uint64(7), uint64(2), uint64(0), int32(-1), int32(1), uint64(1<<63), uint64(0), int64(-1))
	f.Fuzz(func(t *testing.T, mode, id, level uint64, cpu, thread int32, value, kind uint64, tid int64) {
		records := []perfdata.Value{
			&perfdata.StatConfig{Terms: []perfdata.StatConfigTerm{{Tag: 0, Value: mode % 12}, {Tag: 1, Value: level}, {Tag: 3, Value: level}}},
			&perfdata.ThreadMap{Threads: []perfdata.MappedThread{{TID: tid}, {TID: 5}}},
			&perfdata.Stat{ID: id % 4, CPU: cpu, Thread: thread % 3, Value: value, Enabled: value, Running: value / 2}, stat(1, 0, 3),
			&perfdata.StatRound{Type: kind % 2, Time: 5}, &perfdata.Stat{ID: id % 4, CPU: cpu, Thread: thread % 3}, final}
		for _, a := range []*Aggregation{nil, by(AggregateCore), by(AggregateNone), by(AggregateThread)} {
			text, err := reported(t, made(t, records...), ReportConfig{Aggregation: a}, NewText)
			if err != nil && text != "" && !errors.Is(err, errNoCounts) || bytes.ContainsAny([]byte(text), "\x1b") {
				t.Errorf("%v: %q", err, text)
			}
		}
	})
}
