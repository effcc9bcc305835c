package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/test/golden"
	"github.com/bperf/bperf/test/require"
)

// listerOn returns a lister for a fake machine, whose kernel counts the events that counts accepts.
func listerOn(t *testing.T, machine string, counts func(*event.Event) bool) (*lister, *bytes.Buffer, *bytes.Buffer) {
	t.Helper()
	archive, err := txtar.ParseFile(filepath.Join("..", "event", "testdata", machine+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	root := fstest.MapFS{"tracing": {Mode: fs.ModeDir}}
	for _, f := range archive.Files {
		root[f.Name] = &fstest.MapFile{Data: f.Data}
	}
	devices, err := fs.Sub(root, "devices")
	if err != nil {
		t.Fatal(err)
	}
	tracing, err := fs.Sub(root, "tracing")
	if err != nil {
		t.Fatal(err)
	}
	var out, errOut bytes.Buffer
	return &lister{machine: event.NewMachine(devices, tracing), counts: counts, out: &out, err: &errOut}, &out, &errOut
}

// few reports whether a kernel counts an event that has only two hardware events, cache loads, software events and breakpoints.
func few(e *event.Event) bool {
	switch e.Attr.Type {
	case 0:
		return e.Attr.Config&0xffffffff < 2
	case 3:
		return e.Attr.Config>>8&0xff == 0
	default:
		return true
	}
}

func none(*event.Event) bool { return false }

func TestList(t *testing.T) {
	for _, test := range []struct {
		golden, machine string
		counts          func(*event.Event) bool
		change          func(*lister)
		args            []string
	}{
		{golden: "hybrid", machine: "hybrid", counts: few},
		{golden: "amd", machine: "amd", counts: few},
		{golden: "arm64", machine: "arm64-one", counts: few},
		{golden: "nothing", machine: "arm64-one", counts: none, args: []string{"tool", "raw"}},
		{golden: "all", machine: "amd", counts: none, change: func(l *lister) { l.all = true }, args: []string{"hw", "breakpoint"}},
		{golden: "no-desc", machine: "amd", counts: few, change: func(l *lister) { l.noDesc = true }, args: []string{"sw"}},
		{golden: "glob", machine: "hybrid", counts: few, args: []string{"sched:*", "power/*", "faults", "MEM-*"}},
		{golden: "details", machine: "hybrid", counts: few, change: func(l *lister) { l.details = true },
			args: []string{"cpu-cycles", "L1-dcache-loads", "energy*", "mem-*", "faults", "user_time", "raw", "breakpoint"}},
		{golden: "unit", machine: "amd", counts: few, change: func(l *lister) { l.unit = "power" }},
		{golden: "raw-dump", machine: "amd", counts: few, change: func(l *lister) { l.names = true }, args: []string{"sw", "raw", "energy"}},
		{golden: "no-kind", machine: "amd", counts: none, args: []string{"hw", "cache", "sdt", "metricgroups"}},
		{golden: "metrics", machine: "amd", counts: none, args: []string{"metric"}},
		{golden: "json-metrics", machine: "amd", counts: none, change: func(l *lister) { l.json = true }, args: []string{"metrics"}},
		{golden: "json", machine: "amd", counts: few, change: func(l *lister) { l.json = true },
			args: []string{"clock", "energy", "raw", "syscalls:sys_enter_getp*", "cpu-cycles"}},
		{golden: "json-all", machine: "amd", counts: few, change: func(l *lister) { l.json, l.all = true, true },
			args: []string{"cycles"}},
	} {
		t.Run(test.golden, func(t *testing.T) {
			l, out, errOut := listerOn(t, test.machine, test.counts)
			if test.change != nil {
				test.change(l)
			}
			if err := l.run(test.args); err != nil {
				t.Fatal(err)
			}
			if errOut.Len() != 0 {
				t.Errorf("stderr: %s", errOut)
			}
			if l.json && !json.Valid(out.Bytes()) {
				t.Errorf("not JSON: %s", out)
			}
			golden.Compare(t, filepath.Join("testdata", "list-"+test.golden+".golden"), out.String())
		})
	}
}

func TestListUnmatched(t *testing.T) {
	for _, test := range []struct {
		args   []string
		json   bool
		all    bool
		out    string
		stderr string
		want   string
	}{
		{args: []string{"nothing*"}, want: `no event of this machine matches "nothing*"; --all also lists events that this machine does not have`},
		{args: []string{"nothing"}, all: true, want: `no event matches "nothing"`},
		{args: []string{"nothing"}, json: true, out: "[]\n",
			want: `no event of this machine matches "nothing"; --all also lists events that this machine does not have`},
		{args: []string{"user_time", "[", "nothing"}, out: "  user_time                                          [Tool event]\n" +
			"       [Time of the command in user mode. Unit: ns]\n",
			want: `no event of this machine matches "["; --all also lists events that this machine does not have`},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			l, out, errOut := listerOn(t, "amd", none)
			l.json, l.all = test.json, test.all
			err := l.run(test.args)
			var exit *exitError
			if !errors.As(err, &exit) || exit.Status != 1 || exit.Err.Error() != test.want {
				t.Errorf("got %v, want %s with status 1", err, test.want)
			}
			if out.String() != test.out || errOut.Len() != 0 {
				t.Errorf("got %q, %q", out, errOut)
			}
		})
	}
}

// TestListWithoutTracefs expects one note about missing tracefs, and only if tracepoints were requested.
func TestListWithoutTracefs(t *testing.T) {
	const missing = "Warning: tracepoints are not listed: tracefs is not mounted; " +
		"mount it: mount -t tracefs nodev /sys/kernel/tracing (with lockdown=confidentiality it is empty)\n"
	for _, test := range []struct {
		args   []string
		stderr string
		fails  bool
	}{
		{nil, missing, false},
		{[]string{"sched:*"}, missing, true},
		{[]string{"tracepoint"}, missing, true},
		{[]string{"tool", "cache"}, "", false},
		{[]string{"tool", "*clock"}, missing, false},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			l, _, errOut := listerOn(t, "arm64", few)
			if err := l.run(test.args); (err != nil) != test.fails {
				t.Errorf("got error %v", err)
			}
			if errOut.String() != test.stderr {
				t.Errorf("stderr %q, want %q", errOut, test.stderr)
			}
		})
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestListBrokenOutput(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		l, _, _ := listerOn(t, "amd", few)
		l.out, l.json = brokenPipe{}, asJSON
		if err := l.run([]string{"tool"}); err == nil || err.Error() != "print the list: broken pipe" {
			t.Errorf("got %v", err)
		}
	}
}

// TestListCounts runs on a real kernel: every machine has these software events, and none has events with invented numbers.
func TestListCounts(t *testing.T) {
	require.Root(t)
	for spec, want := range map[string]bool{
		"task-clock": true, "page-faults": true, "context-switches": true,
		"1:0x7fffffff": false, // a software event that no kernel has
		"0:0x7fffffff": false,
	} {
		list, err := event.Host().Parse(spec)
		if err != nil {
			t.Fatal(err)
		}
		if got := counts(list[0].Events[0]); got != want {
			t.Errorf("%s: %v, want %v", spec, got, want)
		}
	}
}

func TestListCommand(t *testing.T) {
	cmd := newListCommand()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"--json", "duration_time"})
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	var events []map[string]any
	if err := json.Unmarshal(out.Bytes(), &events); err != nil {
		t.Fatal(err)
	}
	if len(events) != 1 || events[0]["EventName"] != "duration_time" || events[0]["EventType"] != "Tool event" {
		t.Errorf("got %v", events)
	}
}

// TestListFlags checks the flags that change no list, and where the list goes.
func TestListFlags(t *testing.T) {
	file := filepath.Join(t.TempDir(), "list")
	want := runHere(t, "list", "tool")
	for _, args := range [][]string{{"-v"}, {"--long-desc"}, {"-d"}, {"--desc"}, {"--deprecated"}} {
		if got := runHere(t, append([]string{"list", "tool"}, args...)...); got != want || got.stdout == "" {
			t.Errorf("%v: %+v, want %+v", args, got, want)
		}
	}
	if got := runHere(t, "list", "-o", file, "tool"); got != (result{}) {
		t.Errorf("-o: %+v", got)
	}
	if written, err := os.ReadFile(file); err != nil || string(written) != want.stdout {
		t.Errorf("-o: wrote %q, want %q (%v)", written, want.stdout, err)
	}
	if got := runHere(t, "list", "-o", "/nonexistent/list", "tool"); got.status != 1 || !strings.Contains(got.stderr, "open /nonexistent/list") {
		t.Errorf("-o: %+v", got)
	}
	if got := runHere(t, "list", "--no-desc", "tool"); got.status != 0 || strings.Contains(got.stdout, "[Time ") {
		t.Errorf("--no-desc: %+v", got)
	}
}
