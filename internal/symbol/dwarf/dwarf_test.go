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

// compile compiles the source to a program, and returns its debug sections and the addresses of its code. Package object compares results
// with other tools.
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
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "gcc", append([]string{"-O2", "-g", "-o", "s", "s.c"}, flags...)...)
	cmd.Dir, cmd.WaitDelay = dir, time.Minute
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	f, err := elf.Open(filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for name, to := range map[string]*Section{
		"abbrev": &s.Abbrev, "addr": &s.Addr, "aranges": &s.Aranges, "info": &s.Info, "line": &s.Line, "line_str": &s.LineStr,
		"ranges": &s.Ranges, "rnglists": &s.RngLists, "str": &s.Str, "str_offsets": &s.StrOffsets,
	} {
		if section := f.Section(".debug_" + name); section != nil {
			if to.Data, err = section.Data(); err != nil {
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

// TestLittleByLittle reads sections that are valid only as far as they were requested, and sections without .debug_aranges. The results
// must be the same. With .debug_aranges, only a part of .debug_info must be requested.
func TestLittleByLittle(t *testing.T) {
	for _, version := range []string{"-gdwarf-2", "-gdwarf-4", "-gdwarf-5"} {
		s, lo, hi := compile(t, version)
		if len(s.Aranges.Data) == 0 {
			t.Fatalf("%s: there is no .debug_aranges", version)
		}
		all := New(s)
		all.Frames(lo, nil)
		part := s
		for _, section := range []*Section{&part.Abbrev, &part.Aranges, &part.Info, &part.Line, &part.LineStr, &part.Ranges, &part.RngLists, &part.Str} {
			whole := section.Data
			section.Data = make([]byte, len(whole))
			section.Fill = func(end uint64) uint64 { return uint64(copy(section.Data[:end], whole)) }
		}
		without := part
		without.Aranges = Section{}
		for name, d := range map[string]*Data{"in parts": New(part), "in parts, without .debug_aranges": New(without)} {
			known := 0
			for addr := lo; addr < hi; addr++ {
				want, got := all.Frames(addr, nil), d.Frames(addr, nil)
				if !slices.Equal(got, want) {
					t.Fatalf("%s, %s: %#x is %+v, want %+v", version, name, addr, got, want)
				}
				known += len(got)
			}
			if lines, want := d.Lines(lo, hi), all.Lines(lo, hi); known == 0 || !slices.Equal(lines, want) {
				t.Errorf("%s, %s: the lines are %+v, want %+v", version, name, lines, want)
			}
		}
	}
}

// TestAranges finds a unit by .debug_aranges without reading the unit after it, and finds addresses that .debug_aranges lacks by the units.
func TestAranges(t *testing.T) {
	le := binary.LittleEndian
	text := func(low uint64) []byte { return append(le.AppendUint64(nil, low), 0x10) }
	root := func(low uint64) []byte {
		return unit4(slices.Concat([]byte{1}, text(low), []byte{2}, text(low), []byte{byte(low >> 12)})...)
	}
	var end uint64
	info := slices.Concat(root(0x1000), root(0x2000), root(0x3000))
	aranges := le.AppendUint32(nil, 44)
	aranges = le.AppendUint16(aranges, 2)
	aranges = le.AppendUint32(aranges, 0)
	aranges = append(aranges, 8, 0, 0, 0, 0, 0)
	aranges = le.AppendUint64(le.AppendUint64(aranges, 0x1000), 0x10)
	aranges = append(aranges, make([]byte, 16)...)
	d := New(Sections{
		Abbrev: Section{Data: []byte{
			1, tagCompileUnit, 1, attrLowPC, formAddr, attrHighPC, formData1, 0, 0,
			2, tagSubprogram, 0, attrLowPC, formAddr, attrHighPC, formData1, attrDeclLine, formData1, 0, 0,
			0,
		}},
		Aranges: Section{Data: aranges},
		Info:    Section{Data: info, Fill: func(to uint64) uint64 { end = max(end, to); return end }},
	})
	for _, test := range []struct {
		addr uint64
		line int
		read int
	}{{0x1004, 1, len(info) / 3}, {0x3004, 3, len(info)}, {0x2004, 2, len(info)}} {
		got := d.Frames(test.addr, nil)
		if len(got) != 1 || got[0].StartLine != test.line || end != uint64(test.read) {
			t.Errorf("%#x is %+v, and %d bytes were read; want line %d and %d bytes", test.addr, got, end, test.line, test.read)
		}
	}
}

// TestForgetting reads the same after the parsed units were dropped.
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

// ask looks up everything at some addresses.
func ask(s Sections, lo uint64) {
	d := New(s)
	d.Frames(0, nil) // no unit contains it, so all units are read
	for _, sp := range slices.Concat(d.reader.aranges.spans, d.reader.whole.spans, spans{{lo: lo, hi: lo + 64}}) {
		for addr := sp.lo; addr < min(sp.hi, sp.lo+64); addr += 5 {
			d.Frames(addr, nil)
		}
		d.Lines(sp.lo, sp.lo+64)
	}
}

// TestBroken truncates sections, and changes them at random, from a fixed seed.
func TestBroken(t *testing.T) {
	for _, version := range []string{"-gdwarf-4", "-gdwarf-5"} {
		whole, lo, _ := compile(t, version)
		random := rand.New(rand.NewPCG(1, 2))
		for range 3000 {
			s := whole
			for _, part := range []*Section{&s.Abbrev, &s.Aranges, &s.Info, &s.Line, &s.LineStr, &s.Ranges, &s.RngLists, &s.Str} {
				if len(part.Data) == 0 || random.IntN(3) > 0 {
					continue
				}
				changed := append([]byte(nil), part.Data...)
				for range 1 + random.IntN(4) {
					changed[random.IntN(len(changed))] = byte(random.Uint32())
				}
				part.Data = changed[:len(changed)-random.IntN(2)*random.IntN(len(changed))]
			}
			ask(s, lo)
		}
	}
}

// unit4 returns a unit of DWARF 4 with 8-byte addresses, whose abbreviations are at 0.
func unit4(entries ...byte) []byte {
	le := binary.LittleEndian
	b := le.AppendUint32(nil, uint32(len(entries)+7))
	b = le.AppendUint16(b, 4)
	b = le.AppendUint32(b, 0)
	return append(append(b, 8), entries...)
}

// TestSupplement has a function that is described in the supplementary file, as dwz writes it, and one with only its name there.
func TestSupplement(t *testing.T) {
	le := binary.LittleEndian
	text := func(low uint64, size byte) []byte { return append(le.AppendUint64(nil, low), size) }
	form := func(n int) (byte, byte) { return byte(n&0x7f | 0x80), byte(n >> 7) }
	ref0, ref1 := form(formGNURefAlt)
	str0, str1 := form(formGNUStrpAlt)
	d := New(Sections{
		Abbrev: Section{Data: []byte{
			1, tagCompileUnit, 1, attrLowPC, formAddr, attrHighPC, formData1, 0, 0,
			2, tagSubprogram, 0, attrLowPC, formAddr, attrHighPC, formData1, attrAbstractOrigin, ref0, ref1, 0, 0,
			3, tagSubprogram, 0, attrLowPC, formAddr, attrHighPC, formData1, attrName, str0, str1, 0, 0,
			0,
		}},
		Info: Section{Data: unit4(slices.Concat(
			[]byte{1}, text(0x1000, 0x20),
			[]byte{2}, text(0x1000, 0x10), []byte{12, 0, 0, 0}, // after the header and the root of the supplement
			[]byte{3}, text(0x1010, 0x10), []byte{9, 0, 0, 0},
		)...)},
		Supplement: &Sections{
			Abbrev: Section{Data: []byte{1, 0x3c, 1, 0, 0, 2, tagSubprogram, 0, attrName, formStrp, attrDeclLine, formData1, 0, 0, 0}},
			Info:   Section{Data: unit4(1, 2, 0, 0, 0, 0, 77)},
			Str:    Section{Data: []byte("function\x00another\x00")},
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

// TestBounds has sections that claim much, or refer to the same data from many entries. Reading them must take only a small multiple of
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
		"one list for many functions": {Info: Section{Data: unit4(slices.Concat(root, function, inlined)...)}},
		"one list for many units":     {Info: Section{Data: units}},
		"many directories":            {Info: Section{Data: unit4(root...)}, Line: Section{Data: lines}},
	} {
		s.Abbrev.Data, s.Ranges.Data = abbrev, ranges
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		d := New(s)
		d.Frames(0x1004, nil)
		d.Frames(0x1014, nil)
		runtime.ReadMemStats(&after)
		size := uint64(len(s.Info.Data) + len(s.Ranges.Data) + len(s.Line.Data))
		if got := after.TotalAlloc - before.TotalAlloc; got > 64*size+1<<20 {
			t.Errorf("%s: %d bytes took %d", name, size, got)
		}
	}
}

func FuzzData(f *testing.F) {
	for _, version := range []string{"-gdwarf-2", "-gdwarf-4", "-gdwarf-5"} {
		s, lo, _ := compile(f, version)
		f.Add(s.Abbrev.Data, s.Aranges.Data, s.Info.Data, s.Line.Data, s.LineStr.Data, s.Ranges.Data, s.RngLists.Data, s.Str.Data, lo, false)
	}
	f.Fuzz(func(t *testing.T, abbrev, aranges, info, line, lineStr, ranges, rngLists, str []byte, addr uint64, big bool) {
		part := func(data []byte) Section { return Section{Data: data} }
		ask(Sections{
			Abbrev: part(abbrev), Aranges: part(aranges), Info: part(info), Line: part(line), LineStr: part(lineStr), Ranges: part(ranges),
			RngLists: part(rngLists), Str: part(str), Addr: part(ranges), StrOffsets: part(rngLists), BigEndian: big,
			Supplement: &Sections{Abbrev: part(abbrev), Info: part(info), Str: part(str)},
		}, addr)
	})
}
