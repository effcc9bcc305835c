package object

import (
	"debug/elf"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"testing"
)

// ask looks up everything in a file.
func ask(data []byte) {
	f, err := parse("broken", data)
	if err != nil {
		return
	}
	f.BuildID()
	f.image.debugLink()
	symbols := slices.Collect(f.Symbols().All())
	for i, s := range symbols {
		if i%(len(symbols)/16+1) != 0 {
			continue
		}
		f.Frames(s.Start, nil)
		f.Lines(s.Start, min(s.End, s.Start+64))
		_, _ = f.Code(s.Start, min(s.End, s.Start+64))
	}
	f.Address(0x1000)
	_, _ = f.Section(".eh_frame")
}

// TestBroken truncates a file and changes it at random, from a fixed seed, mostly in its headers and symbols.
func TestBroken(t *testing.T) {
	need(t, "objcopy")
	path := build(t, "gcc", "-g", "-gz")
	data := read(t, path)
	file, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	var hot [][2]uint64
	for _, s := range file.Sections {
		if s.Type != elf.SHT_NOBITS && s.FileSize > 0 {
			hot = append(hot, [2]uint64{s.Offset, s.FileSize})
		}
	}
	hot = append(hot, [2]uint64{0, 1024}, [2]uint64{uint64(len(data)) - 64*40, 64 * 40})
	random := rand.New(rand.NewPCG(1, 2))
	for range 400 {
		changed := append([]byte(nil), data...)
		for range 1 + random.IntN(20) {
			part := hot[random.IntN(len(hot))]
			if at := part[0] + random.Uint64N(part[1]); at < uint64(len(changed)) {
				changed[at] = byte(random.Uint32())
			}
		}
		if random.IntN(8) == 0 {
			changed = changed[:random.IntN(len(changed))]
		}
		ask(changed)
	}
}

// TestCutOff truncates a file while it is mapped. Reading the rest then faults.
func TestCutOff(t *testing.T) {
	path := build(t, "gcc", "-g")
	f := open(t, path)
	main := needNamed(t, f, "main")
	if err := os.Truncate(path, 64); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Section(".eh_frame"); err == nil {
		t.Error("what was cut off was read")
	}
	if _, err := f.Code(main.Start, main.End); err == nil {
		t.Error("code that was cut off was read")
	}
	if got := f.Frames(main.Start, nil); len(got) != 1 || got[0].Function != "main" || got[0].File != "" {
		t.Errorf("main is %+v, want its symbol", got)
	}
	f.Lines(main.Start, main.End)
	f.BuildID()
}

// TestClaims has a compressed section that claims a size of 2^40 bytes.
func TestClaims(t *testing.T) {
	path := build(t, "gcc", "-g", "-gz")
	file, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	info := file.Section(".debug_info")
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	data := read(t, path)
	data[info.Offset+8+5] = 1 // ch_size of Elf64_Chdr
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	ask(data)
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 64<<20 {
		t.Errorf("a file of %d bytes took %d", len(data), got)
	}
}

func FuzzFile(f *testing.F) {
	need(f, "gcc")
	dir := f.TempDir()
	write(f, dir+"/s.c", []byte("static inline int half(int n) { return n / 2; }\nint _start(int n) { return half(n) + 1; }\n"))
	for _, flags := range [][]string{{"-nostdlib", "-static"}, {"-nostdlib", "-shared", "-gz"}, {"-c"}} {
		run(f, dir, "gcc", append(flags, "-O2", "-g", "-o", "s", "s.c")...)
		f.Add(read(f, dir+"/s"))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		ask(data)
		compareBuildID(t, data)
	})
}
