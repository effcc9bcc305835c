package dwarf

import (
	"context"
	"debug/elf"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/bperf/bperf/internal/symbol"
)

const source = `
static inline int half(int n) { return n / 2; }
static inline int quarter(int n) { return half(half(n)); }
__attribute__((section(".text.second"))) int second(int n)
{
	return quarter(n) * 3 + half(n);
}
int main(int argc, char **argv) { return second(argc) + quarter(argc); }
`

// compile makes a program of the source and returns its debug sections and the addresses of its code. Comparisons with
// other tools are those of package object.
func compile(t testing.TB, flags ...string) (s Sections, lo, hi uint64) {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("needs gcc")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "s.c"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "gcc", append([]string{"-O2", "-g", "-o", "s", "s.c"}, flags...)...)
	cmd.Dir, cmd.WaitDelay = dir, time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	f, err := elf.Open(filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for name, to := range map[string]*[]byte{
		"abbrev": &s.Abbrev, "addr": &s.Addr, "info": &s.Info, "line": &s.Line, "line_str": &s.LineStr,
		"ranges": &s.Ranges, "rnglists": &s.RngLists, "str": &s.Str, "str_offsets": &s.StrOffsets,
	} {
		if section := f.Section(".debug_" + name); section != nil {
			if *to, err = section.Data(); err != nil {
				t.Fatal(err)
			}
		}
	}
	text := f.Section(".text")
	return s, text.Addr, text.Addr + text.Size
}

func TestFrames(t *testing.T) {
	for _, version := range []string{"-gdwarf-2", "-gdwarf-3", "-gdwarf-4", "-gdwarf-5", "-gdwarf64"} {
		s, lo, hi := compile(t, version)
		d := New(s)
		deepest := 0
		starts := make(map[string]int)
		for addr := lo; addr < hi; addr++ {
			frames := d.Frames(addr, nil)
			deepest = max(deepest, len(frames))
			for i, f := range frames {
				starts[f.Function] = f.StartLine
				if f.Inlined != (i < len(frames)-1) {
					t.Errorf("%s: %#x: frame %d of %d is inlined: %v", version, addr, i, len(frames), f.Inlined)
				}
			}
		}
		if deepest != 4 { // half in quarter in second in main
			t.Errorf("%s: %d frames at most, want 4", version, deepest)
		}
		for function, line := range map[string]int{"half": 2, "quarter": 3, "second": 4, "main": 8} {
			if starts[function] != line {
				t.Errorf("%s: %s starts in line %d, want %d", version, function, starts[function], line)
			}
		}
	}
}

// TestForgetting reads the same after what was read has been forgotten.
func TestForgetting(t *testing.T) {
	s, lo, hi := compile(t)
	d := New(s)
	for addr := lo; addr < hi; addr++ {
		before := d.Frames(addr, nil)
		d.cost = maxCost + 1
		clear(d.parsed)
		after := d.Frames(addr, nil)
		if len(before) != len(after) || len(before) > 0 && before[0] != after[0] {
			t.Fatalf("%#x is %+v, and then %+v", addr, before, after)
		}
		if len(after) > 0 && d.cost > maxCost {
			t.Fatalf("%d bytes are counted", d.cost)
		}
	}
}

// ask asks for everything that there is at some addresses.
func ask(s Sections, lo uint64) {
	d := New(s)
	for _, sp := range append(func() spans { d.Frames(0, nil); return d.spans }(), span{lo: lo, hi: lo + 64}) {
		for addr := sp.lo; addr < min(sp.hi, sp.lo+64); addr += 5 {
			d.Frames(addr, nil)
		}
		d.Lines(sp.lo, sp.lo+64)
	}
}

// TestBroken changes sections at random, from a fixed seed, and cuts them off.
func TestBroken(t *testing.T) {
	for _, version := range []string{"-gdwarf-4", "-gdwarf-5"} {
		whole, lo, _ := compile(t, version)
		random := rand.New(rand.NewPCG(1, 2))
		for range 3000 {
			s := whole
			for _, part := range []*[]byte{&s.Abbrev, &s.Info, &s.Line, &s.LineStr, &s.Ranges, &s.RngLists, &s.Str} {
				if len(*part) == 0 || random.IntN(3) > 0 {
					continue
				}
				changed := append([]byte(nil), *part...)
				for range 1 + random.IntN(4) {
					changed[random.IntN(len(changed))] = byte(random.Uint32())
				}
				*part = changed[:len(changed)-random.IntN(2)*random.IntN(len(changed))]
			}
			ask(s, lo)
		}
	}
}

// unit4 makes a unit of DWARF 4 with addresses of 8 bytes, whose abbreviations are at 0.
func unit4(entries ...byte) []byte {
	le := binary.LittleEndian
	b := le.AppendUint32(nil, uint32(len(entries)+7))
	b = le.AppendUint16(b, 4)
	b = le.AppendUint32(b, 0)
	return append(append(b, 8), entries...)
}

// TestSupplement has a function that is described in the supplementary file, as dwz makes them, and one whose name alone
// is there.
func TestSupplement(t *testing.T) {
	le := binary.LittleEndian
	text := func(low uint64, size byte) []byte { return append(le.AppendUint64(nil, low), size) }
	form := func(n int) (byte, byte) { return byte(n&0x7f | 0x80), byte(n >> 7) }
	ref0, ref1 := form(formGNURefAlt)
	str0, str1 := form(formGNUStrpAlt)
	d := New(Sections{
		Abbrev: []byte{
			1, tagCompileUnit, 1, attrLowPC, formAddr, attrHighPC, formData1, 0, 0,
			2, tagSubprogram, 0, attrLowPC, formAddr, attrHighPC, formData1, attrAbstractOrigin, ref0, ref1, 0, 0,
			3, tagSubprogram, 0, attrLowPC, formAddr, attrHighPC, formData1, attrName, str0, str1, 0, 0,
			0,
		},
		Info: unit4(slices.Concat(
			[]byte{1}, text(0x1000, 0x20),
			[]byte{2}, text(0x1000, 0x10), []byte{12, 0, 0, 0}, // behind the header and the root of the supplement
			[]byte{3}, text(0x1010, 0x10), []byte{9, 0, 0, 0},
		)...),
		Supplement: &Sections{
			Abbrev: []byte{1, 0x3c, 1, 0, 0, 2, tagSubprogram, 0, attrName, formStrp, attrDeclLine, formData1, 0, 0, 0},
			Info:   unit4(1, 2, 0, 0, 0, 0, 77),
			Str:    []byte("function\x00another\x00"),
		},
	})
	for addr, want := range map[uint64]symbol.Frame{
		0x1000: {Function: "function", StartLine: 77},
		0x101f: {Function: "another"},
	} {
		if got := d.Frames(addr, nil); len(got) != 1 || got[0] != want {
			t.Errorf("%#x is %+v, want %+v", addr, got, want)
		}
	}
}

// TestBounds has sections that claim much, or refer to the same from many places. What they take is a small multiple of
// their size.
func TestBounds(t *testing.T) {
	le := binary.LittleEndian
	// 1: a unit with ranges and lines; 2: a function with ranges; 3: one that is inlined, with ranges
	abbrev := []byte{
		1, tagCompileUnit, 1, attrRanges, formSecOffset, attrStmtList, formSecOffset, 0, 0,
		2, tagSubprogram, 1, attrRanges, formSecOffset, 0, 0,
		3, tagInlinedSubroutine, 1, attrRanges, formSecOffset, 0, 0,
		0,
	}
	var ranges []byte
	for i := range uint64(20_000) {
		ranges = le.AppendUint64(le.AppendUint64(ranges, 0x1000+i*16), 0x1008+i*16)
	}
	ranges = append(ranges, make([]byte, 16)...)
	root := append([]byte{1}, make([]byte, 8)...)
	function := append([]byte{2}, make([]byte, 4)...)
	var inlined []byte
	for range 50_000 {
		inlined = append(inlined, 3, 0, 0, 0, 0)
	}
	var units []byte
	for range 20_000 {
		units = append(units, unit4(root...)...)
	}
	// A line table of version 5 that claims 2^60 directories of no bytes.
	lines := []byte{0, 0, 0, 0, 5, 0, 8, 0, 20, 0, 0, 0, 1, 1, 1, 0xfb, 14, 1, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0, 0}
	le.PutUint32(lines, uint32(len(lines)-4))

	for name, s := range map[string]Sections{
		"one list for many functions": {Abbrev: abbrev, Ranges: ranges, Info: unit4(slices.Concat(root, function, inlined)...)},
		"one list for many units":     {Abbrev: abbrev, Ranges: ranges, Info: units},
		"many directories":            {Abbrev: abbrev, Ranges: ranges, Info: unit4(root...), Line: lines},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		d := New(s)
		d.Frames(0x1004, nil)
		d.Frames(0x1014, nil)
		runtime.ReadMemStats(&after)
		size := uint64(len(s.Info) + len(s.Ranges) + len(s.Line))
		if got := after.TotalAlloc - before.TotalAlloc; got > 64*size+1<<20 {
			t.Errorf("%s: %d bytes took %d", name, size, got)
		}
	}
}

func FuzzData(f *testing.F) {
	for _, version := range []string{"-gdwarf-2", "-gdwarf-4", "-gdwarf-5"} {
		s, lo, _ := compile(f, version)
		f.Add(s.Abbrev, s.Info, s.Line, s.LineStr, s.Ranges, s.RngLists, s.Str, lo, false)
	}
	f.Fuzz(func(t *testing.T, abbrev, info, line, lineStr, ranges, rngLists, str []byte, addr uint64, big bool) {
		ask(Sections{
			Abbrev: abbrev, Info: info, Line: line, LineStr: lineStr, Ranges: ranges, RngLists: rngLists, Str: str,
			Addr: ranges, StrOffsets: rngLists, BigEndian: big, Supplement: &Sections{Abbrev: abbrev, Info: info, Str: str},
		}, addr)
	})
}
