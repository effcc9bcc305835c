package object

import (
	"bufio"
	"bytes"
	"debug/elf"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/bperf/bperf/internal/symbol"
)

// TestSymbolsAlone finds a symbol without reading the debugging information, which may be compressed and large.
func TestSymbolsAlone(t *testing.T) {
	f := open(t, build(t, "gcc", "-g"))
	needNamed(t, f, "main")
	if f.debugInfo.data != nil {
		t.Error("DWARF was read for a symbol")
	}
	f.Frames(0, nil)
	if f.debugInfo.data == nil {
		t.Error("DWARF was not read for lines")
	}
}

func TestSymbols(t *testing.T) {
	f := open(t, build(t, "gcc"))
	main := needNamed(t, f, "main")
	plain := needNamed(t, f, "plain")
	data := needNamed(t, f, "global_data")
	for _, test := range []struct {
		addr uint64
		want string
	}{
		{main.Start, "main"},
		{main.End - 1, "main"},
		{plain.Start, "plain"},
		{plain.End - 1, "plain"},
		{data.Start + 3, "global_data"},
	} {
		if s, ok := f.Symbol(test.addr); !ok || s.Name != test.want {
			t.Errorf("%#x is in %+v, want %s", test.addr, s, test.want)
		}
	}
	got := f.Frames(plain.Start+1, nil)
	want := symbol.Frame{Function: "plain", Start: plain.Start, Module: f.Path()}
	if len(got) != 1 || got[0] != want {
		t.Errorf("without debugging information, plain is %+v, want %+v", got, want)
	}
	if got := f.Frames(1<<60, nil); got != nil {
		t.Errorf("nothing is at 1<<60, and it is %+v", got)
	}
	if data.Size() != 4 {
		t.Errorf("global_data has %d bytes", data.Size())
	}
	if n := testing.AllocsPerRun(100, func() { f.Symbol(main.Start + 1) }); n != 0 {
		t.Errorf("Symbol allocates %v times", n)
	}
}

// TestPLT compares the names of PLT entries with those of objdump, for several layouts of linkers.
func TestPLT(t *testing.T) {
	need(t, "objdump")
	for _, flags := range [][]string{
		nil,
		{"-Wl,-z,lazy"},
		{"-Wl,-z,now", "-fcf-protection=full", "-Wl,-z,ibtplt"},
		{"-static-pie"},
		{"-no-pie", "-Wl,-z,lazy"},
	} {
		f := open(t, build(t, "gcc", flags...))
		head := regexp.MustCompile(`^([0-9a-f]+) <([A-Za-z_0-9]+)(?:@[A-Z].*)?@plt>:$`)
		lines := bufio.NewScanner(bytes.NewReader(run(t, "", "objdump", "-d", "-j.plt", "-j.plt.sec", "-j.plt.got", f.Path())))
		found := 0
		for lines.Scan() {
			m := head.FindStringSubmatch(lines.Text())
			if m == nil || f.Machine() != elf.EM_X86_64 {
				continue
			}
			addr, err := strconv.ParseUint(m[1], 16, 64)
			if err != nil {
				t.Fatal(err)
			}
			found++
			for _, a := range []uint64{addr, addr + 7} {
				if s, ok := f.Symbol(a); !ok || s.Name != m[2]+"@plt" || s.Start != addr {
					t.Errorf("%v: %#x is %+v, want %s@plt", flags, a, s, m[2])
				}
			}
		}
		if static := len(flags) > 0 && flags[0] == "-static-pie"; found < 5 && !static && f.Machine() == elf.EM_X86_64 {
			t.Errorf("%v: objdump names %d entries", flags, found)
		}
	}
}

// TestPLTOfARM reads PLT entries of arm64 as ld writes them, with and without branch target identification.
func TestPLTOfARM(t *testing.T) {
	words := func(words ...uint32) []byte {
		var b []byte
		for _, w := range words {
			b = append(b, byte(w), byte(w>>8), byte(w>>16), byte(w>>24))
		}
		return b
	}
	for _, test := range []struct {
		name   string
		code   []byte
		addr   uint64
		slot   uint64
		length int
	}{
		{"an entry", words(0x90000110, 0xf9400211, 0x91000210, 0xd61f0220), 0x5d0, 0x20000, 16},
		{"one with a landing pad", words(0xd503245f, 0xf0000090, 0xf947da11, 0x913ec210, 0xd61f0220, 0xd503201f), 0x6d0, 0x13fb0, 24},
		{"one that jumps back", words(0xb0fffff0, 0xf9400611, 0x91002210, 0xd61f0220), 0x10000, 0xd008, 16},
		{"the head", words(0xa9bf7bf0, 0xf0000090, 0xf947fe11, 0x913fe210, 0xd61f0220), 0x5b0, 0, 0},
		{"its end", words(0x90000110), 0x5d0, 0, 0},
	} {
		if slot, length := armSlot(test.code, test.addr); slot != test.slot || length != test.length {
			t.Errorf("%s: slot %#x, %d bytes, want %#x, %d", test.name, slot, length, test.slot, test.length)
		}
	}
}

func TestMiniDebugInfo(t *testing.T) {
	need(t, "objcopy", "strip", "xz")
	whole := build(t, "g++")
	want := open(t, whole)
	dir := t.TempDir()
	mini, stripped := filepath.Join(dir, "mini"), filepath.Join(dir, "stripped")
	run(t, "", "objcopy", "--only-keep-debug", whole, mini)
	for _, flags := range [][]string{{"-6"}, {"-9e", "--check=sha256"}, {"--block-size=4096", "--check=none"}} {
		packed := run(t, "", "xz", append(flags, "-c", "-k", mini)...)
		write(t, mini+".xz", packed)
		run(t, "", "strip", "-o", stripped, whole)
		if f := open(t, stripped); named(f, "main") != nil {
			t.Fatal("the stripped program has main")
		}
		run(t, "", "objcopy", "--add-section=.gnu_debugdata="+mini+".xz", stripped)
		f := open(t, stripped)
		for _, name := range []string{"main", "_ZN4shop8cheapestERSt6vectorINS_4ItemESaIS1_EE"} {
			if got := needNamed(t, f, name); *got != *needNamed(t, want, name) {
				t.Errorf("%v: %s is %+v", flags, name, got)
			}
		}
	}
}

// TestMiniDebugInfoBounds has data that would need much more memory than the file has bytes.
func TestMiniDebugInfoBounds(t *testing.T) {
	need(t, "xz")
	dir := t.TempDir()
	zeros := filepath.Join(dir, "zeros")
	write(t, zeros, make([]byte, 4<<20))
	packed := run(t, "", "xz", "-c", zeros)
	if _, err := unxz(packed, len(packed)*maxRatio); err == nil {
		t.Errorf("%d bytes were decompressed to 4 MiB", len(packed))
	}
	if data, err := unxz(packed, 4<<20); err != nil || len(data) != 4<<20 {
		t.Errorf("%d bytes, %v; want 4 MiB", len(data), err)
	}
	header := bytes.Clone(packed)
	at := bytes.Index(header[12:32], []byte{0x21, 1}) + 12
	header[at+2] = 40 // a dictionary of 4 GiB
	if _, err := unxz(header, 4<<20); err == nil {
		t.Error("a dictionary of 4 GiB was made")
	}
	for n := 0; n < len(packed)-40; n += 1 + len(packed)/20 {
		if _, err := unxz(packed[:n], 4<<20); err == nil {
			t.Fatalf("%d bytes of %d were enough", n, len(packed))
		}
	}
}

func TestVDSO(t *testing.T) {
	own, err := VDSO()
	if err != nil {
		t.Skip(err)
	}
	f := openWith(t, Search{}, "[vdso]", own.BuildID())
	for _, name := range []string{"__vdso_clock_gettime", "__kernel_clock_gettime"} {
		if s := named(f, name); s != nil {
			addr, ok := f.Address(s.Start) // it is mapped as it is in the file, from its start
			if got := f.Frames(addr, nil); !ok || len(got) != 1 || got[0].Module != "[vdso]" {
				t.Errorf("%s is %+v", name, got)
			}
			return
		}
	}
	t.Errorf("no clock_gettime among %d symbols", len(slices.Collect(f.Symbols().All())))
}

// TestOtherVDSO has a recording of another kernel, whose vDSO perf has kept.
func TestOtherVDSO(t *testing.T) {
	other := build(t, "gcc", "-shared")
	id := open(t, other).BuildID()
	if f, err := (Search{}).Open("[vdso]", id); err == nil {
		t.Errorf("this kernel's vDSO was opened as build %s: it is %s", id, f.BuildID())
	}
	cache := t.TempDir()
	write(t, filepath.Join(cache, ".build-id", id[:2], id[2:], "vdso"), read(t, other))
	if f := openWith(t, Search{Cache: cache}, "[vdso]", id); f.BuildID() != id || f.Path() != "[vdso]" {
		t.Errorf("opened %s of build %s", f.Path(), f.BuildID())
	}
}
