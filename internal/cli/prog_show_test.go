package cli

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/bperf/bperf/internal/bpfprog"
	"github.com/bperf/bperf/test/golden"
)

// shownProgs returns a program with all details, and one with many details hidden.
func shownProgs() []shownProg {
	entries := progListing(0).Entries
	first := &bpfprog.Line{File: "a.bpf.c", Number: 7, Text: "return on(x);"}
	again, none := *first, &bpfprog.Line{File: "a.bpf.c"}
	entries[1].Functions = []bpfprog.Function{{Name: "sd_devices", Tag: "00000000000000fe"}, {Tag: "00000000000000fd"}}
	return []shownProg{
		{entries[0], &bpfprog.Code{
			Translated: []bpfprog.Translated{
				{Offset: 0, Function: "on_switch", Source: first, Opcode: 0x79, Text: "r1 = *(u64 *)(r1 +0)", Field: "evil\x1b[2J.x"},
				{Offset: 1, Source: &again, Opcode: 0x85, Text: "call bpf_ktime_get_ns#5", Calls: "bpf_ktime_get_ns"},
				{Offset: 2, Opcode: 0x18, Text: "r2 = map[id:3]", Map: "evil\x1b[2J"},
				{Offset: 4, Opcode: 0x18, Text: "r2 = map[id:9][0]+24", Map: ".bss", Variable: "total+8"},
				{Offset: 6, Opcode: 0x85, Text: "call pc+1#evil\x1b[2J"},
				{Offset: 7, Source: none, Opcode: 0x95, Text: "exit"},
			},
			JITed: []bpfprog.JITedFunction{{Name: "on_switch", Address: 0xffffffffc0025da0, Instructions: []bpfprog.JITed{
				{Offset: 0, Bytes: "f3 0f 1e fa", Text: "endbr64"},
				{Offset: 4, Source: first, Bytes: "e8 fb 0f 00 00", Text: "callq 0xffffffff81000000", Calls: "bpf_ktime_get_ns"},
				{Offset: 9, Source: &again, Bytes: "c3", Text: "retq"},
			}}},
		}, []bpfprog.MapDetail{
			{Map: bpfprog.Map{ID: 3, Name: "evil\x1b[2J"}, Type: 1, KeySize: 8, ValueSize: 16, MaxEntries: 1 << 20, Memlock: 16 << 20},
			{Map: bpfprog.Map{ID: 4}, Type: 1000, KeySize: math.MaxUint32, ValueSize: math.MaxUint32, MaxEntries: math.MaxUint32, Memlock: math.MaxUint64},
		}},
		{entries[1], &bpfprog.Code{TranslatedMissing: "they are hidden", JITedMissing: "it was not compiled"}, nil},
	}
}

func TestPrintProgShow(t *testing.T) {
	var text, object strings.Builder
	if err := printProgShow(&text, shownProgs()); err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, filepath.Join("testdata", "prog-show.golden"), text.String())
	if err := printProgShowJSON(&object, shownProgs()); err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, filepath.Join("testdata", "prog-show.json"), withoutStamp(object.String()))
}

// TestProgShow shows the programs of a session of bperf, which have source lines.
func TestProgShow(t *testing.T) {
	p := newPlace(t)
	_, pid := p.session(t, "-e", "cpu-clock", "-t", fmt.Sprint(os.Getpid()))
	got := run(t, p.bperf("prog", "show", fmt.Sprint("pid:", pid)))
	_, onFree, _ := strings.Cut(got.stdout, ": on_free\n") // matching all of the output would take a minute in an emulated guest
	onFree, _, _ = strings.Cut(onFree, "\nBPF program ")
	returns := map[string]string{"amd64": "(retq|jmpq? .*return_thunk)", "arm64": "ret"}[runtime.GOARCH]
	for _, pattern := range []string{
		`^ +type +raw_tracepoint\n`,
		`(?m)^on_free +0xffff[0-9a-f]{12} +\d+ +[0-9a-f]{16}$`,
		`(?m)^translated instructions: \d+ bytes\non_free:\n +; int BPF_PROG\(on_free, .*  \(.*counters\.bpf\.c:\d+\)\n +0: `,
		`(?m)^ +\d+: \(85\) call \w+(#\d+)?$`,
		`(?m)^ +\d+: \(18\) r1 = map\[id:\d+\] <tasks>$`,
		`(?m)^ +\d+: \(79\) r1 = \*\(u64 \*\)\(r1 \+\d+\)$`,
		`(?m)^ +\d+: \(95\) exit$`,
		`(?m)^ *\d+  raw_tracepoint  sched_process_free$`,
		`(?m)^ *\d+  tasks  hash +8 +\d+ +\d+ +\d+$`,
		`(?m)^machine code: \d+ bytes\non_free:\n( .*\n)* +; .*  \(.*counters\.bpf\.c:\d+\)\n`,
		`(?m)^ +[0-9a-f]+: ([0-9a-f]{2} )+ +` + returns,
	} {
		if !regexp.MustCompile(pattern).MatchString(onFree) {
			t.Errorf("nothing matches %s in\n%s", pattern, onFree)
		}
	}
	if !regexp.MustCompile(`\(61\) r\d = \*\(u32 \*\)\(r\d \+\d+\) <task_struct\.flags>\n`).MatchString(got.stdout) {
		t.Errorf("no instruction reads task->flags in\n%s", got.stdout)
	}
	if !strings.Contains(got.stdout, ": on_switch\n") {
		t.Errorf("there is no on_switch in\n%s", got.stdout)
	}
	if got.status != 0 || got.stderr != "" || strings.Contains(got.stdout, "(bad)") {
		t.Errorf("status %d, stderr %q, or an unknown instruction:\n%s", got.status, got.stderr, got.stdout)
	}
	want := result{status: 1, stderr: "Error: no BPF program is selected by \"link:2147483647\": there is no BPF link with the ID 2147483647\n"}
	if got := run(t, bperf("prog", "show", "link:2147483647")); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
