package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bperf/bperf/internal/userprog"
	"github.com/bperf/bperf/test/golden"
	"github.com/bperf/bperf/test/onsample"
	"github.com/bperf/bperf/test/program"
	"github.com/bperf/bperf/test/require"
)

func TestPrintMap(t *testing.T) {
	var out bytes.Buffer
	few := userprog.Map{Name: "by\x1bcomm", Columns: []string{"pid", "comm", "value.ns", "value.calls"}, Keys: 2, Rows: []userprog.Row{
		{uint64(1234), "sh\x1b[2J", uint64(18446744073709551615), int64(-3)}, {uint64(1), "init", uint64(7), int64(12)}}}
	many := userprog.Map{Name: "many", Columns: []string{"key", "value"}, Keys: 1}
	for i := range uint64(40) {
		many.Rows = append(many.Rows, userprog.Row{i, true})
	}
	cut := many
	cut.Cut = true
	slots := userprog.Map{Name: "hists", Columns: []string{"op", "slots"}, Keys: 1, Rows: []userprog.Row{{"read", []uint64{1, 0, 50, 7, 0, 0}}, {"write", []uint64{0, 1}}}, Cut: true}
	joined := userprog.Map{Name: "hist", Columns: []string{"value"}, Rows: []userprog.Row{{[]uint64{3, 2}}}}
	for _, format := range mapFormats {
		p := mapPrinter{format: format, w: &out}
		maps := []*userprog.Map{&few, &slots, &joined}
		if format == "table" {
			maps = append(maps, &many, &cut)
		}
		for _, m := range maps {
			if err := p.printMap(m, time.Date(2026, 3, 14, 15, 9, 26, 535897932, time.UTC)); err != nil {
				t.Error(err)
			}
		}
	}
	golden.Compare(t, "testdata/userprog-maps.golden", out.String())
}

// TestScriptProgramOutput prints what a program wrote for each sample, in perf's form.
func TestScriptProgramOutput(t *testing.T) {
	require.Root(t)
	file := filepath.Join(t.TempDir(), "perf.data")
	command := program.Program{Body: program.Touch, Times: 100}.Write(t) // perf prints bytes from 128 on unchanged
	output(t, bperf(), "record", "-q", "-e", "page-faults", "-c", "1", "--prog", onsample.Write(t)+":"+onsample.Output, "-o", file, command)
	printed := string(output(t, bperf(), "script", "-i", file))
	if n := strings.Count(printed, "  sample..\n"); n < 100 || n != strings.Count(printed, " BPF output: 0000: ") {
		t.Errorf("%d outputs of 100 faults and some:\n%s", n, printed)
	}
	for name, perf := range map[string]string{"distribution": distributionPerf(t), "packaged": require.NewestPerf(t)} {
		compareScripts(t, name, exec.Command(perf), file)
	}
}

// TestProfileMaps shows maps of programs like bcc's tools as profiles, in the formats of report.
func TestProfileMaps(t *testing.T) {
	require.AnyArch(t)
	require.Root(t)
	const pages, sleeps = 200, 20
	touch := program.Program{Body: program.Touch, Times: pages}.Write(t)
	sleep := program.Program{Body: program.Sleep, Times: sleeps}.Write(t)
	faults := func(args ...string) []string {
		return append(append([]string{"profile", "-e", "page-faults", "-c", "1"}, args...), touch)
	}
	counts, times, two := onsample.WriteTool(t, "profile"), onsample.WriteTool(t, "offcputime"), onsample.WriteTool(t, "llcstat")
	for _, tt := range []struct {
		name   string
		args   []string
		stdout []string // patterns
		stderr string   // a substring
	}{
		{"table", faults("--prog", counts), []string{`(?m)^counts: [0-9]+ entries, 2[0-4][0-9] events$`, `(?m)^  Share +Value +Command +Shared Object +Symbol$`, ` program +program `}, ""},
		{"flame graph", faults("--prog", counts, "--format", "flamegraph"), []string{`^<\?xml`, `>program<`}, ""},
		{"folded", []string{"profile", "--prog", times, "--set", "only=program", "--format", "folded", sleep}, []string{`(?m)^program;.*nanosleep.* [0-9]{8,}$`}, ""},
		{"labels", faults("--prog", two+":on_cache_ref", "--format", "folded"), []string{`(?m)^program;parity EVEN.* 1[0-2][0-9]\nprogram;parity ODD.* 1[0-2][0-9]$`}, ""},
		{"by labels", faults("--prog", two+":on_cache_ref", "--by", "parity", "--format", "folded"), []string{`(?m)^parity EVEN.* 1[0-2][0-9]\nparity ODD.* 1[0-2][0-9]$`}, ""},
		{"two numbers", []string{"profile", "-e", "page-faults", "--prog", two + ":on_cache_ref", "-e", "minor-faults", "--prog", two + ":on_cache_miss", "-c", "1", "--format", "folded", touch},
			[]string{`(?m)^program;parity ODD.* 1[0-2][0-9]$`}, "Of the maps infos.ref, infos.miss, this format shows only one, infos.ref: choose another with --show\n"},
		{"the other one", []string{"profile", "-e", "page-faults", "--prog", two + ":on_cache_ref", "-e", "minor-faults", "--prog", two + ":on_cache_miss", "-c", "1", "--format", "folded",
			"--show", "infos.miss", touch}, []string{`(?m)^program;parity EVEN.* 2[0-4][0-9]$`}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := run(t, bperf(tt.args...))
			for _, pattern := range tt.stdout {
				if got.status != 0 || !regexp.MustCompile(pattern).MatchString(got.stdout) {
					t.Errorf("status %d, no %s in\n%.3000s\n%s", got.status, pattern, got.stdout, got.stderr)
				}
			}
			if !strings.Contains(got.stderr, tt.stderr) || regexp.MustCompile("BPF map (counts|infos?) at").MatchString(got.stderr) {
				t.Errorf("standard error is %q", got.stderr)
			}
		})
	}
	got := run(t, bperf("profile", "--prog", times, "-p", "1"))
	if got.status != statusBadCombination || !strings.Contains(got.stderr, "leave out -p, -t, -u and -C") {
		t.Errorf("status %d, %s", got.status, got.stderr)
	}
}

// TestMapsOfIntervals writes the contents of maps at the end of each interval, as JSON, to a file.
func TestMapsOfIntervals(t *testing.T) {
	require.AnyArch(t)
	require.Root(t)
	const pages = 200
	file := filepath.Join(t.TempDir(), "maps")
	touch := program.Program{Body: program.Touch, Times: pages}.Write(t)
	output(t, bperf(), "profile", "-q", "-e", "page-faults", "-c", "1", "--prog", onsample.Write(t)+":"+onsample.EveryNth, "-I", "0.1", "--format", "json", "-o", os.DevNull,
		"--map-format", "json", "--map-output", file, "sh", "-c", "until [ -s "+file+" ]; do sleep 0.02; done; "+touch)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var last time.Time
	var samples []float64 // of each interval
	for line := range strings.Lines(string(text)) {
		var e envelope
		var m mapJSON
		unwrap(t, line, mapSchema, &m)
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Time.Before(last) {
			t.Errorf("%v: %s", err, line)
		}
		if last = e.Time; m.Map == "decisions" {
			n := 0.0
			for _, row := range m.Rows {
				n += row[2].(float64)
			}
			samples = append(samples, n)
		}
	}
	if len(samples) < 2 || !slices.IsSorted(samples) || samples[len(samples)-1] < pages {
		t.Errorf("%v samples, want %d at the end", samples, pages)
	}
	got := runHere(t, "profile", "--prog", onsample.Write(t)+":"+onsample.EveryNth, "--map-output", "/nonexistent/file")
	if got.status != 1 || !strings.Contains(got.stderr, "--map-output: open /nonexistent/file") {
		t.Errorf("status %d, %s", got.status, got.stderr)
	}
}

// TestPerfSpelling connects a map with an event in perf's syntax.
func TestPerfSpelling(t *testing.T) {
	require.Root(t)
	const calls = 10
	object := onsample.WriteExample(t, "syscall_events")
	file := filepath.Join(t.TempDir(), "perf.data")
	command := program.Program{Body: program.GetPPID, Times: calls}.Write(t)
	record := func(args ...string) string {
		t.Helper()
		output(t, bperf(), append(append([]string{"record", "-q", "-o", file, "--set", fmt.Sprintf("number=%d", syscall.SYS_GETPPID)}, args...), command)...)
		return string(output(t, bperf(), "script", "-i", file, "-F", "comm,event,bpf-output"))
	}
	own := func(text, event string) int { // other processes on this machine make the call, too
		return len(regexp.MustCompile(`(?m)^ *program +`+event+":").FindAllString(text, -1))
	}
	const evt = "bpf-output/no-inherit=1,name=evt/"
	for _, args := range [][]string{
		{"-e", evt, "-e", object + "/map:calls.event=evt/"},
		{"-e", object + "/map:calls.event=evt/", "-e", "page-faults," + evt, "-c", "1"},
	} {
		text := record(args...)
		if n := own(text, "evt"); n != calls || strings.Contains(text, "calls:") || strings.Contains(text, "page-faults:") != (len(args) > 4) {
			t.Errorf("%v: %d events of %d calls:\n%.1000s", args, n, calls, text)
		}
	}
	if text := record("-e", object); own(text, "calls") != calls {
		t.Errorf("without a name for the event:\n%.1000s", text)
	}
	if got := runHere(t, "record", "-a", "-e", evt, "-G", "/", "-e", object+"/map:calls.event=evt/"); got.status != statusBadCombination || !strings.Contains(got.stderr, "-G and map:MAP.event=") {
		t.Errorf("with -G: status %d, %s", got.status, got.stderr)
	}
	for args, want := range map[string]string{
		"-e " + evt + " -e " + object + "/map:none.event=evt/":               "the objects have no such map of type PERF_EVENT_ARRAY; they have calls",
		"-e " + object + "/map:calls.event=evt/":                             "add -e bpf-output/no-inherit=1,name=evt/",
		"-e " + evt + " -e " + object + "/map:calls.value=7/":                `"map:calls.value=7" is not map:MAP.event=EVENT`,
		"-e " + evt + " -e " + object + "/map:calls.event=evt,map:x.event=/": `"map:x.event=" is not`,
		"-e cpu-clock/name=evt/ -e " + object + "/map:calls.event=evt/":      "there is no such event",
		"-e /nonexistent.o": "/nonexistent.o",
	} {
		if got := runHere(t, append([]string{"record"}, strings.Fields(args)...)...); got.status != statusBadOption || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: status %d, %s; want %q", args, got.status, got.stderr, want)
		}
	}
}

// TestScriptTypes prints what a program wrote to user space by the members of its structure, which the map or the user names. The program
// sees the calls of the whole machine.
func TestScriptTypes(t *testing.T) {
	require.Root(t)
	const calls, name = 100, "script-types"
	file := filepath.Join(t.TempDir(), "perf.data")
	command := program.Program{Body: program.GetPPID, Times: calls}.WriteAs(t, name)
	output(t, bperf(), "record", "-q", "--prog", onsample.WriteExample(t, "syscall_events"), "--set", fmt.Sprintf("number=%d", syscall.SYS_GETPPID), "-o", file, command)
	pattern := regexp.MustCompile(`(?m)^      BPF output: sequence=([0-9]+) pid=([1-9][0-9]*) tid=([1-9][0-9]*) comm="(.*)"$`)
	text := string(output(t, bperf(), "script", "-i", file, "--show-lost-events"))
	printed, last := 0, -1
	var sequences []int // of the calls of all processes
	for _, m := range pattern.FindAllStringSubmatch(text, -1) {
		sequence, err := strconv.Atoi(m[1])
		sequences = append(sequences, sequence)
		if m[4] != name {
			continue
		}
		if err != nil || sequence <= last || m[2] != m[3] {
			t.Errorf("call %d: %q", printed, m)
		}
		printed, last = printed+1, sequence
	}
	if printed != calls {
		t.Errorf("%d of %d calls were printed", printed, calls)
	}
	slices.Sort(sequences)
	for i, sequence := range sequences {
		if sequence != i && !strings.Contains(text, "PERF_RECORD_LOST") {
			t.Fatalf("call %d of all is printed as %d", i, sequence)
		}
	}
	var sample struct {
		Event  string
		Output struct {
			Sequence, PID, TID uint64
			Comm               string
		}
	}
	objects := 0
	for line := range bytes.Lines(output(t, bperf(), "script", "-i", file, "--json")) {
		sample.Output.Comm = ""
		if err := json.Unmarshal(line, &sample); err != nil || sample.Event != "calls" || sample.Output.PID == 0 {
			t.Errorf("%v, %+v: %s", err, sample, line)
		}
		if sample.Output.Comm == name {
			objects++
		}
	}
	if objects != calls {
		t.Errorf("%d of %d calls are in JSON", objects, calls)
	}
	if text := string(output(t, bperf(), "script", "-i", file, "--type", "event")); len(pattern.FindAllString(text, -1)) != len(sequences) {
		t.Errorf("as a structure that is given:\n%.500s", text)
	}
	got := run(t, bperf("script", "-i", file, "--type", "no_such"))
	if got.status == 0 || !strings.Contains(got.stderr, "--type no_such: the BTF of the recording has no structure of this name") {
		t.Errorf("status %d, %s", got.status, got.stderr)
	}
	t.Run("perf", func(t *testing.T) {
		if theirs := string(output(t, exec.Command(distributionPerf(t)), "script", "-f", "-i", file)); strings.Count(theirs, "BPF output: 0000: ") != len(sequences) {
			t.Errorf("perf prints\n%.1000s", theirs)
		}
	})
}
