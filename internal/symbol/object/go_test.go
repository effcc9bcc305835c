package object

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/bperf/bperf/internal/symbol"
	"github.com/bperf/bperf/internal/symbol/pclntab"
)

// goProgram imports nothing, because in another mode the go command compiles all imports anew.
const goProgram = `package main

type T struct{ n int }

func (t *T) add(n int) { t.n += half(n) + 1 }

func half(n int) int { return n / 2 }

func generic[V int | string](v ...V) int { return len(v) + half(len(v)) }

//go:noinline
func work(t *T) int {
	for i := range 10 {
		t.add(i)
	}
	return generic("a", "b") + generic(t.n)
}

func main() {
	if work(&T{}) == 0 {
		panic("no work")
	}
}
`

// buildGo compiles goProgram.
func buildGo(t testing.TB, flags ...string) string {
	t.Helper()
	need(t, "go")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(goProgram), 0o600); err != nil {
		t.Fatal(err)
	}
	// A setting of the user (GOFLAGS=-trimpath) would change the names of files.
	run(t, dir, "go", slices.Concat([]string{"build", "-trimpath=false", "-o", "program"}, flags, []string{"main.go"})...)
	return filepath.Join(dir, "program")
}

// frames returns the frames at an address without modules and starts, which are only known here.
func frames(f *File, addr uint64) []symbol.Frame {
	frames := f.Frames(addr, nil)
	for i := range frames {
		frames[i].Module, frames[i].Start = "", 0
	}
	return frames
}

// TestGoPrograms compares the function table with DWARF for the functions of package main, and looks them up in programs without symbols
// and DWARF.
func TestGoPrograms(t *testing.T) {
	whole := open(t, buildGo(t))
	if whole.goTable() == nil {
		t.Fatal("no function table")
	}
	byDWARF := open(t, whole.Path())
	byDWARF.goTable = func() *pclntab.Table { return nil }

	if frames(whole, needNamed(t, whole, "main.main").Start); whole.debugInfo.data != nil {
		t.Error("DWARF was read for what the function table has")
	}
	compared, inlined := 0, 0
	want := make(map[string][][]symbol.Frame)
	for s := range whole.Symbols().All() {
		if !isMain(s.Name) {
			continue
		}
		for addr := s.Start; addr < s.End; addr++ {
			got := frames(whole, addr)
			wantFunctions(t, whole, addr)
			want[s.Name] = append(want[s.Name], got)
			compared++
			if len(got) > 1 {
				inlined++
			}
			other := frames(byDWARF, addr)
			for i := range other {
				other[i].Column = 0 // the function table has none
			}
			if !slices.Equal(withoutStarts(got), withoutStarts(other)) {
				t.Errorf("%s+%#x:\nfunction table: %+v\n         DWARF: %+v", s.Name, addr-s.Start, got, other)
			}
		}
	}
	if compared < 50 || inlined == 0 {
		t.Errorf("compared %d addresses, %d of them in inlined functions", compared, inlined)
	}

	for _, flags := range [][]string{
		{"-ldflags=-s -w"},
		{"-ldflags=-s -w", "-buildmode=pie"},
	} {
		stripped := open(t, buildGo(t, flags...))
		for name, functions := range want {
			s := named(stripped, name)
			if s == nil {
				t.Errorf("%v: no %s", flags, name)
				continue
			}
			inlined := slices.ContainsFunc(functions, func(f []symbol.Frame) bool { return len(f) > 1 })
			found := false
			for addr := s.Start; addr < s.Start+uint64(len(functions)); addr++ {
				got := frames(stripped, addr)
				found = found || len(got) > 1
				if len(got) == 0 || got[0].File == "" || got[len(got)-1].StartLine != functions[0][len(functions[0])-1].StartLine {
					t.Fatalf("%v: %s+%#x is %+v", flags, name, addr-s.Start, got)
				}
			}
			if found != inlined {
				t.Errorf("%v: %s has inlined functions: %v, want %v", flags, name, found, inlined)
			}
		}
	}
}

// TestOnlyGo compares the symbols that are found in a function table with the table of all symbols.
func TestOnlyGo(t *testing.T) {
	if f := open(t, buildGo(t)); f.onlyGo() != nil {
		t.Error("the symbol table of a program is not searched")
	}
	f := open(t, buildGo(t, "-ldflags=-s -w"))
	if f.onlyGo() == nil {
		t.Fatal("the function table is not searched")
	}
	if err := f.SymbolsError(); err != nil || f.symbols != nil {
		t.Errorf("a table of all symbols was made, or could not be: %v", err)
	}
	compared := 0
	for want := range f.Symbols().All() {
		for _, addr := range []uint64{want.Start - 1, want.Start, want.End - 1, want.End} {
			want, isThere := f.Symbols().Find(addr)
			if got, ok := f.Symbol(addr); got != want || ok != isThere {
				t.Errorf("%#x is %+v, %v, want %+v, %v", addr, got, ok, want, isThere)
			}
			compared++
		}
	}
	if compared < 1000 {
		t.Errorf("compared only %d addresses", compared)
	}
}

func isMain(name string) bool {
	return len(name) > 5 && name[:5] == "main." && name != "main..inittask"
}

func withoutStarts(frames []symbol.Frame) []symbol.Frame {
	frames = slices.Clone(frames)
	for i := range frames {
		frames[i].StartLine = 0
	}
	return frames
}

// TestOwnFunctions compares results for the running test with those of the runtime.
func TestOwnFunctions(t *testing.T) {
	f := open(t, "/proc/self/exe")
	self := runtime.FuncForPC(own())
	slide := uint64(self.Entry()) - named(f, self.Name()).Start
	compared := 0
	for s := range f.Symbols().All() {
		for addr := s.Start; addr < min(s.End, s.Start+64); addr += 5 {
			fn := runtime.FuncForPC(uintptr(addr + slide))
			if fn == nil || fn.Name() == "" || strings.Contains(fn.Name(), "[...]") { // the runtime shortens type arguments
				continue
			}
			file, line := fn.FileLine(uintptr(addr + slide))
			if file == "?" { // between functions
				file = ""
			}
			got := f.Frames(addr, nil)
			name := symbol.Demangle(fn.Name()) // the race detector is C++
			if len(got) == 0 || got[0].Function != name || got[0].File != file || got[0].Line != line {
				t.Fatalf("%s+%#x is %+v, the runtime says %s %s:%d", s.Name, addr-s.Start, got, name, file, line)
			}
			compared++
		}
	}
	if compared < 10_000 {
		t.Errorf("compared only %d addresses", compared)
	}
}

//go:noinline
func own() uintptr {
	pc, _, _, _ := runtime.Caller(0)
	return pc
}
