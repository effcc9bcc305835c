package object

import (
	"strings"
	"testing"

	"github.com/bperf/bperf/internal/symbol"
)

// TestKeepMangled compares all functions and inlined calls of a C++ program with those that have demangled names.
func TestKeepMangled(t *testing.T) {
	path := build(t, "g++", "-g")
	plain, mangled := open(t, path), open(t, path)
	mangled.KeepMangled()
	inlined, outer := 0, 0 // with mangled names
	for _, addr := range code(plain, 3) {
		want, got := plain.Frames(addr, nil), mangled.Frames(addr, nil)
		if len(want) != len(got) {
			t.Fatalf("%#x has %d frames, want %d", addr, len(got), len(want))
		}
		for i := range want {
			if name := symbol.Demangle(got[i].Function); name != want[i].Function {
				t.Errorf("%#x: %s is %s, want %s", addr, got[i].Function, name, want[i].Function)
			}
			switch {
			case !strings.HasPrefix(got[i].Function, "_Z"):
			case got[i].Inlined:
				inlined++
			default:
				outer++
			}
		}
	}
	if inlined == 0 || outer == 0 {
		t.Errorf("%d inlined and %d other functions have mangled names", inlined, outer)
	}
}
