package script

import (
	"debug/elf"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/bperf/bperf/internal/perfdata"
	"github.com/bperf/bperf/internal/replay"
)

//go:noinline
func caller() uintptr {
	var pc [1]uintptr
	runtime.Callers(2, pc[:])
	return pc[0] - 1
}

// here is an address in a function that the compiler inlines.
func here() uintptr { return caller() }

//go:noinline
func notInlined() uintptr {
	return here()
}

// TestJSONHasLinesOfInlinedFunctions wants the file and line of all functions at a place, and not only of those that are inlined there.
func TestJSONHasLinesOfInlinedFunctions(t *testing.T) {
	ip := uint64(notInlined())
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	image, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer image.Close()
	path := filepath.Join(t.TempDir(), "perf.data")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	event := &perfdata.Event{Name: "cpu-clock", Attr: perfdata.Attr{Type: 1, Flags: perfdata.AttrSampleIDAll,
		SampleType: perfdata.SampleIP | perfdata.SampleTID | perfdata.SampleTime}}
	w, err := perfdata.NewWriter(file, perfdata.Options{Events: []*perfdata.Event{event}})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range image.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 {
			w.Write(perfdata.MiscUser, &perfdata.Mmap2{PID: 1, TID: 1, Start: p.Vaddr, Length: p.Filesz, Offset: p.Off, Protection: 5, Filename: binary})
		}
	}
	w.Write(perfdata.MiscUser, &perfdata.Sample{SampleID: perfdata.SampleID{PID: 1, TID: 1, Time: 1}, IP: ip})
	if err := w.Close(); err != nil { // has all errors of before
		t.Fatal(err)
	}
	var got struct{ IP frameJSON }
	out := printed(t, path, Options{Fields: NewSelection(), JSON: true}, replay.Options{BuildIDs: t.TempDir()})
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	f := got.IP
	if !strings.HasSuffix(f.Symbol, ".notInlined") || !strings.HasSuffix(f.File, "inlined_test.go") || f.Line == 0 || len(f.Inlined) == 0 {
		t.Fatalf("%s", out)
	}
	if last := f.Inlined[len(f.Inlined)-1]; !strings.HasSuffix(last.Function, ".here") || last.File != f.File || last.Line == 0 || last.Line == f.Line {
		t.Errorf("%s", out)
	}
}
