package object

import (
	"slices"
	"testing"
)

// TestInflating compares all kinds of compressed sections with sections that are not compressed: with a scratch file and without, and again
// after the data has left memory.
func TestInflating(t *testing.T) {
	need(t, "gcc", "objcopy")
	plain := build(t, "gcc", "-g")
	whole := open(t, plain)
	addrs := code(whole, 3)
	for _, kind := range []string{"zlib", "zlib-gnu", "zstd"} {
		for _, scratch := range []bool{true, false} {
			packed := plain + "." + kind
			run(t, "", "objcopy", "--compress-debug-sections="+kind, plain, packed)
			dir := t.TempDir()
			if !scratch {
				dir += "/missing"
			}
			t.Setenv("TMPDIR", dir)
			f := open(t, packed)
			f.Frames(addrs[0], nil)
			if len(f.debugInfo.inflating) == 0 {
				t.Fatalf("%s: no section is compressed", kind)
			}
			for _, z := range f.debugInfo.inflating {
				if z.inFile != scratch {
					t.Errorf("%s: there is a file: %v, want %v", kind, z.inFile, scratch)
				}
			}
			for range 2 {
				for _, addr := range addrs {
					if got, want := frames(f, addr), frames(whole, addr); !slices.Equal(got, want) {
						t.Fatalf("%s: %#x is %+v, want %+v", kind, addr, got, want)
					}
				}
				for _, z := range f.debugInfo.inflating {
					z.forget()
				}
			}
		}
	}
}
