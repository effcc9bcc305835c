package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/internal/bpfprog"
	"github.com/bperf/bperf/test/golden"
	"github.com/bperf/bperf/test/require"
)

// progListing returns a machine's programs: one that is attached and held by many processes, one without holders, and one that was
// unloaded.
func progListing(window time.Duration) *bpfprog.Listing {
	loaded := time.Date(2026, 3, 14, 8, 0, 0, 123456789, time.UTC)
	var held []bpfprog.Holder
	for pid := range 6 {
		held = append(held, bpfprog.Holder{PID: 100 + pid, Comm: "agent\x1b[m"})
	}
	l := &bpfprog.Listing{Window: window, Entries: []*bpfprog.Entry{
		{
			Program: &bpfprog.Program{ID: 7, Type: 17, Name: "on_switch", Tag: "0123456789abcdef", Loaded: loaded, GPL: true, MapIDs: []uint32{3, 4},
				BTF: 12, Xlated: 6744, JITed: 3713, Memlock: 8192, Verified: 4000,
				Stats:     bpfprog.Stats{Runs: 9000, RunTime: 3 * time.Millisecond, Missed: 1},
				Functions: []bpfprog.Function{{Name: "on_switch", Tag: "fedcba9876543210", Address: 0xffffffffc0025da0, Size: 3713}}},
			User: "root", Maps: []bpfprog.Map{{ID: 3, Name: "counts"}, {ID: 4}},
			Attached: []bpfprog.Attachment{{Link: 2, Kind: "raw_tracepoint", To: "sched_switch"}, {Kind: "cgroup", To: "cgroup_device /a"}},
			Holders:  held,
			Use:      &bpfprog.Use{Stats: bpfprog.Stats{Runs: 1000, RunTime: 250 * time.Microsecond}, CPUs: 0.00025},
		},
		{
			Program: &bpfprog.Program{ID: 100000, Type: 15, Tag: "00000000000000ff", Loaded: loaded.Add(-24 * time.Hour), UID: 1000, MapIDs: []uint32{},
				Xlated: 64, Memlock: 4096},
			User: "1000",
		},
		{
			Program: &bpfprog.Program{ID: 8, Type: 99, Name: "a_name_of_more_than_15_bytes", Tag: "00000000000000aa", Loaded: loaded.Add(time.Hour), MapIDs: []uint32{9}},
			User:    "root",
			Use:     &bpfprog.Use{Stats: bpfprog.Stats{Runs: 3, RunTime: time.Second, Missed: 2}, CPUs: 1.5},
		},
	}}
	if window == 0 {
		for _, e := range l.Entries {
			e.Use = nil
		}
	}
	return l
}

func TestPrintProgList(t *testing.T) {
	for name, list := range map[string]*bpfprog.Listing{
		"observed": progListing(time.Second), "still": progListing(0), "none": {},
	} {
		t.Run(name, func(t *testing.T) {
			var text, object strings.Builder
			if err := printProgList(&text, list, false, true); err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, filepath.Join("testdata", "prog-list-"+name+".golden"), text.String())
			if err := printProgList(&object, list, true, true); err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, filepath.Join("testdata", "prog-list-"+name+".json"), withoutStamp(object.String()))
			want := progListJSON{Window: list.Window, Programs: []progJSON{}} // encoded at once
			for _, e := range list.Entries {
				want.Programs = append(want.Programs, newProgJSON(e))
			}
			var whole strings.Builder
			if err := writeDocument(&whole, progListSchema, want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(withoutStamp(whole.String()), withoutStamp(object.String())); diff != "" {
				t.Errorf("-encoded at once +encoded one by one:\n%s", diff)
			}
		})
	}
}

func TestPrintProgListMissing(t *testing.T) {
	list := &bpfprog.Listing{Missing: []*bpfprog.NoMatchError{{Item: "7"}, {Item: "link:3", Why: os.ErrNotExist}}}
	var text strings.Builder
	err := printProgList(&text, list, false, false)
	const want = "no BPF program is selected by \"7\": none of those that are loaded matches\nno BPF program is selected by \"link:3\": file does not exist"
	if err == nil || err.Error() != want || text.String() != "" {
		t.Errorf("printed %q, %v", &text, err)
	}
	list.Entries = progListing(0).Entries
	if err := printProgList(&text, list, false, false); err == nil || err.Error() != want || !strings.Contains(text.String(), "on_switch") {
		t.Errorf("printed %q, %v", &text, err)
	}
	if err := printProgList(brokenPipe{}, progListing(0), true, true); err == nil || err.Error() != "print the list: broken pipe" {
		t.Errorf("got %v", err)
	}
}

func TestProgSorts(t *testing.T) {
	for column, want := range map[string][]uint32{
		"id": {7, 8, 100000}, "type": {100000, 7, 8}, "name": {100000, 8, 7}, "tag": {8, 100000, 7}, "loaded": {100000, 7, 8}, "by": {100000, 7, 8},
		"xlated": {7, 100000, 8}, "jited": {7, 100000, 8}, "memlock": {7, 100000, 8}, "runs": {7, 8, 100000}, "time": {8, 7, 100000}, "cpu": {8, 7, 100000},
	} {
		l := progListing(time.Second)
		slices.SortStableFunc(l.Entries, progSorts[slices.Index(sortNames(), column)].compare)
		var got []uint32
		for _, e := range l.Entries {
			got = append(got, e.ID)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", column, diff)
		}
	}
}

func TestProgRefuses(t *testing.T) {
	for args, want := range map[string]result{
		"prog lsit":                         {"", "Error: there is no command \"lsit\"; did you mean \"list\"?\nSee bperf prog --help\n", 1},
		"prog list --interval 9":            {"", "Error: --interval 9: the interval must be at least 10 ms\n", 22},
		"prog list --sort cpu --interval 0": {"", "Error: --interval 0: the interval must be at least 10 ms\n", 22},
		"prog list --sort tyep": {"", "Error: --sort tyep: programs are sorted by id, type, name, tag, loaded, by, xlated, jited, memlock, runs, time, cpu; " +
			"did you mean type?\n", 22},
		"prog list nmae:x": {"", "Error: BPF programs: \"nmae:x\": nothing is selected by \"nmae\" (did you mean name?); give IDs, all, or " +
			"name:GLOB, tag:HEX, pinned:PATH, type:NAME, map:ID|NAME, link:ID, cgroup:PATH or pid:PID\n", 129},
		"prog list ,": {"", "Error: BPF programs: the list is empty; give IDs, all, or " +
			"name:GLOB, tag:HEX, pinned:PATH, type:NAME, map:ID|NAME, link:ID, cgroup:PATH or pid:PID\n", 129},
	} {
		if got := runHere(t, strings.Fields(args)...); got != want {
			t.Errorf("%s: %+v, want %+v", args, got, want)
		}
	}
}

// TestProgList lists a program of this test, with its holder and attachment, and checks that its runs are counted.
func TestProgList(t *testing.T) {
	require.Root(t)
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "bperf_test_list", Type: ebpf.RawTracepoint, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}})
	if err != nil {
		t.Fatal(err)
	}
	defer prog.Close()
	l, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: "sched_process_hang", Program: prog})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	info, err := prog.Info()
	if err != nil {
		t.Fatal(err)
	}
	id, _ := info.ID()
	comm, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}

	got := run(t, bperf("prog", "list", fmt.Sprint(id)))
	want := fmt.Sprintf(`^ *id +type +name +tag +loaded +by\n *%d +raw_tracepoint +bperf_test_list +%s +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d +root\n`+
		` +attached to +raw_tracepoint sched_process_hang \(link \d+\)\n +held by +%s \(%d\)\n +bytes +\d+ translated, \d+ JITed, \d+ locked\n$`,
		id, info.Tag, regexp.QuoteMeta(strings.TrimSpace(string(comm))), os.Getpid())
	if !regexp.MustCompile(want).MatchString(got.stdout) || got.stderr != "" || got.status != 0 {
		t.Errorf("%+v does not match\n%s", got, want)
	}
	for _, args := range []string{"--sort runs", "--interval 10"} {
		got := run(t, bperf(strings.Fields("prog list name:bperf_test_li?t "+args)...))
		if !regexp.MustCompile(`^ *id .* runs +run time ns +cpu %\n.* \d+ +\d+ +\d+\.\d{3}\n`).MatchString(got.stdout) || got.status != 0 {
			t.Errorf("%s: %+v", args, got)
		}
	}

	// The program runs from before the list begins to count until after it has ended.
	cmd := bperf("prog", "list", "--json", "--interval", "100", fmt.Sprint(id))
	done := make(chan result)
	go func() { done <- run(t, cmd) }()
	var runs uint64
	for running := true; running; runs++ {
		if _, err := prog.Run(&ebpf.RunOptions{Context: [8]byte{}}); err != nil {
			t.Fatal(err)
		}
		select {
		case got = <-done:
			running = false
		default:
		}
	}
	var list struct {
		Window   time.Duration `json:"window_ns"`
		Programs []struct {
			ID  uint32 `json:"id"`
			Use struct {
				Runs    uint64        `json:"run_count"`
				RunTime time.Duration `json:"run_time_ns"`
				CPUs    float64       `json:"cpus"`
			} `json:"use"`
			Functions []map[string]any `json:"functions"`
		} `json:"programs"`
	}
	if unwrap(t, got.stdout, progListSchema, &list); got.status != 0 || len(list.Programs) != 1 {
		t.Fatalf("%+v", got)
	}
	p := list.Programs[0]
	if p.Use.Runs == 0 || p.Use.Runs > runs || p.Use.RunTime <= 0 || len(p.Functions) != 1 || list.Window < 100*time.Millisecond {
		t.Errorf("%+v of %d runs", list, runs)
	}
	if want := float64(p.Use.RunTime) / float64(list.Window); p.Use.CPUs != want {
		t.Errorf("%v CPUs, want %v", p.Use.CPUs, want)
	}
}

// TestProgListUnprivileged runs as nobody; the result does not depend on the programs that are loaded.
func TestProgListUnprivileged(t *testing.T) {
	p := newPlace(t)
	cmd := p.bperf("prog", "list")
	cmd.Env = append(cmd.Env, userEnv+"=65534")
	want := result{status: 1, stderr: "Error: look for BPF programs: operation not permitted. Run as root: BPF programs are shown to root, " +
		"or to a user with CAP_SYS_ADMIN (to find them by ID) and CAP_BPF\n"}
	if got := run(t, cmd); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
