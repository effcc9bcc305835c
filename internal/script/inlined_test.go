package script

import (
	"debug/elf"
	"encoding/json"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/bperf/bperf/internal/replay"
	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/perffile"
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

// TestJSONHasLinesOfInlinedFunctions checks that all functions at an address have a file and line, not only the inlined ones.
func TestJSONHasLinesOfInlinedFunctions(t *testing.T) {
	ip := uint64(notInlined())
	out := printedOfThis(t, ip, nil)
	var got struct{ IP frameJSON }
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

// printedOfThis returns a sample of this program, printed as JSON.
func printedOfThis(t *testing.T, ip uint64, chain []uint64) []byte {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	image, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer image.Close()
	event := &perfdata.Event{Name: "cpu-clock", Attr: perfdata.Attr{Type: 1, Flags: perfdata.AttrSampleIDAll,
		SampleType: perfdata.SampleIP | perfdata.SampleTID | perfdata.SampleTime | perfdata.SampleCallchain}}
	path := perffile.Write(t, []*perfdata.Event{event}, nil, func(w *perfdata.Writer) {
		for _, p := range image.Progs {
			if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 {
				w.Write(perfdata.MiscUser, &perfdata.Mmap2{PID: 1, TID: 1, Start: p.Vaddr, Length: p.Filesz, Offset: p.Off, Protection: 5, Filename: binary})
			}
		}
		w.Write(perfdata.MiscUser, &perfdata.Sample{SampleID: perfdata.SampleID{PID: 1, TID: 1, Time: 1}, IP: ip, Callchain: chain})
	})
	return printed(t, path, Options{Fields: NewSelection(), JSON: true}, replay.Options{BuildIDs: t.TempDir()})
}

// TestCallersAreNotInWhatFollowsTheCall has a call that returns to the start of an inlined function. That function is not the caller.
func TestCallersAreNotInWhatFollowsTheCall(t *testing.T) {
	addr := uint64(reflect.ValueOf(notInlined).Pointer())
	isHere := func() bool {
		f, _ := runtime.CallersFrames([]uintptr{uintptr(addr) + 1}).Next()
		return strings.HasSuffix(f.Function, ".here")
	}
	for !isHere() {
		addr++
	}
	var got struct{ Callchain []frameJSON }
	out := printedOfThis(t, addr, []uint64{perfdata.ContextUser, addr, addr})
	if err := json.Unmarshal(out, &got); err != nil || len(got.Callchain) != 2 {
		t.Fatalf("%s: %v", out, err)
	}
	sampled, caller := got.Callchain[0], got.Callchain[1]
	if len(sampled.Inlined) == 0 || len(caller.Inlined) != 0 {
		t.Errorf("inlined are %v where it was sampled, and %v in the caller", sampled.Inlined, caller.Inlined)
	}
	if caller.Address != sampled.Address || caller.Symbol != sampled.Symbol || *caller.Offset != *sampled.Offset {
		t.Errorf("%s", out)
	}
}
