package object

import (
	"debug/elf"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestRelocatable has an object file that resembles a kernel module: several sections of code, all at address zero, and unlinked debugging
// information. It compares the file with a program of the same code.
func TestRelocatable(t *testing.T) {
	need(t, "gcc", "objcopy", "strip", "ld")
	dir := t.TempDir()
	write(t, dir+"/m.c", []byte(`
static inline int half(int n) { return n / 2; }
int first(int n) { return half(n) + 1; }
__attribute__((section(".init.text"))) int second(int n)
{
	return half(n) * 3 + first(n);
}
int third(int n) { return first(half(n)); }
`))
	for _, flags := range [][]string{{"-g", "-gdwarf-4"}, {"-g", "-gdwarf-5"}, {"-g", "-gz"}} {
		run(t, dir, "gcc", append(flags, "-O2", "-c", "-o", "m.ko", "m.c")...)
		run(t, dir, "ld", "-e", "first", "-o", "program", "m.ko")
		run(t, dir, "objcopy", "--only-keep-debug", "m.ko", "m.debug")
		run(t, dir, "objcopy", "--strip-debug", "--add-gnu-debuglink=m.debug", "m.ko", "stripped.ko")

		program := open(t, dir+"/program")
		for _, path := range []string{"m.ko", "stripped.ko"} {
			module := open(t, filepath.Join(dir, path))
			inlined := 0
			for _, name := range []string{"first", "second", "third"} {
				in, want := needNamed(t, module, name), needNamed(t, program, name)
				if in.Size() != want.Size() || in.Size() == 0 {
					t.Fatalf("%s has %d bytes, want %d", name, in.Size(), want.Size())
				}
				for at := range in.Size() {
					got, want := frames(module, in.Start+at), frames(program, want.Start+at)
					if len(got) == 0 || got[0].File == "" || !slices.Equal(got, want) {
						t.Fatalf("%v: %s: %s+%d is\n%+v, want\n%+v", flags, path, name, at, got, want)
					}
					if len(got) > 1 {
						inlined++
					}
				}
			}
			if inlined == 0 {
				t.Errorf("%v: %s: nothing is inlined", flags, path)
			}
			// In the kernel, addresses of a module are relative to its code, where .text is first.
			text := module.image.section(".text")
			third := needNamed(t, module, "third")
			if addr, ok := module.Address(third.Start - text.Addr); !ok || addr != third.Start {
				t.Errorf("the address of third is %#x, want %#x", addr, third.Start)
			}
			if _, ok := module.Address(text.Size); ok {
				t.Error("what follows .text has an address")
			}
			code, err := module.Code(third.Start, third.End)
			if err != nil || uint64(len(code)) != third.Size() {
				t.Errorf("the code of third: %d bytes, %v", len(code), err)
			}
		}
	}
}

// TestCompressed opens modules that are compressed as by distributions.
func TestCompressed(t *testing.T) {
	need(t, "gcc", "xz", "gzip", "zstd")
	module := build(t, "gcc", "-g", "-c")
	for _, tool := range []string{"xz", "gzip", "zstd"} {
		packed := run(t, "", tool, "-c", module)
		path := filepath.Join(t.TempDir(), "module.ko."+tool)
		write(t, path, packed)
		if f := openWith(t, Search{}, path, ""); !hasLines(t, f) {
			t.Errorf("%s: there are no lines", tool)
		}
		write(t, path, packed[:len(packed)/2])
		if _, err := (Search{}).Open(path, ""); err == nil || !strings.Contains(err.Error(), path+": decompress it") {
			t.Errorf("half of the %s file: %v", tool, err)
		}
		zeros := filepath.Join(t.TempDir(), "zeros")
		write(t, zeros, make([]byte, 4<<20))
		write(t, path, run(t, "", tool, "-9", "-c", zeros))
		if _, err := (Search{}).Open(path, ""); err == nil || !strings.Contains(err.Error(), "are of more than") {
			t.Errorf("4 MiB of zeros: %v", err)
		}
	}
}

func TestAddress(t *testing.T) {
	// These are segments as lld lays them out: addresses differ from offsets, and two segments share a page of the file.
	f := &File{image: &image{elf: &elf.File{Progs: []*elf.Prog{
		{ProgHeader: elf.ProgHeader{Type: elf.PT_PHDR, Off: 0x40, Vaddr: 0x200040, Filesz: 0x100}},
		{ProgHeader: elf.ProgHeader{Type: elf.PT_LOAD, Flags: elf.PF_R, Off: 0, Vaddr: 0x200000, Filesz: 0x1234}},
		{ProgHeader: elf.ProgHeader{Type: elf.PT_LOAD, Flags: elf.PF_R | elf.PF_X, Off: 0x1240, Vaddr: 0x202240, Filesz: 0x3000}},
		{ProgHeader: elf.ProgHeader{Type: elf.PT_LOAD, Flags: elf.PF_R | elf.PF_W, Off: 0x4240, Vaddr: 0x206240, Filesz: 0x10, Memsz: 0x1000}},
	}}}}
	f.image.findSegments()
	for _, test := range []struct {
		offset, want uint64
		ok           bool
	}{
		{0, 0x200000, true},
		{0x1233, 0x201233, true},
		{0x1240, 0x202240, true},
		{0x423f, 0x20523f, true},
		{0x4240, 0x206240, true},
		{0x4258, 0x206258, true}, // .bss in the last page of the file
		{0x1238, 0x202238, true}, // between two segments, which both mappings contain: the one with code counts
		{0x1 << 40, 0, false},
	} {
		if got, ok := f.Address(test.offset); got != test.want || ok != test.ok {
			t.Errorf("offset %#x: %#x, %v; want %#x, %v", test.offset, got, ok, test.want, test.ok)
		}
	}
	for _, test := range []struct {
		offset, length uint64
		want           Mapping
		ok             bool
	}{
		{0x1000, 0x4000, Mapping{0x202000, 0x202240, 0x205240}, true}, // the offset alone is in the previous segment
		{0x3000, 0x1000, Mapping{0x204000, 0x204000, 0x205000}, true}, // a part, as left by mprotect(2)
		{0, 0x1000, Mapping{}, false},
		{0x5000, 0x1000, Mapping{}, false},
	} {
		if got, ok := f.Executable(test.offset, test.length); got != test.want || ok != test.ok {
			t.Errorf("%#x bytes at offset %#x: %+v, %v; want %+v, %v", test.length, test.offset, got, ok, test.want, test.ok)
		}
	}
}

// TestCodeAndLines reads the code and the lines that annotate needs.
func TestCodeAndLines(t *testing.T) {
	f := open(t, build(t, "gcc", "-g"))
	plain := needNamed(t, f, "plain")
	code, err := f.Code(plain.Start, plain.End)
	if err != nil {
		t.Fatal(err)
	}
	contents := read(t, f.Path())
	if at, _ := f.image.offset(plain.Start); !slices.Equal(code, contents[at:at+plain.Size()]) {
		t.Error("the code is not what stands in the file")
	}
	lines := f.Lines(plain.Start, plain.End)
	if len(lines) < 2 || lines[0].Addr != plain.Start {
		t.Fatalf("lines: %+v", lines)
	}
	for _, l := range lines {
		frame := f.Frames(l.Addr, nil)
		if l.Addr < plain.Start || l.Addr >= plain.End || filepath.Base(l.File) != "fixture.c" {
			t.Errorf("row %+v", l)
		}
		if next := lines[len(lines)-1]; l == next && (frame[0].Line != l.Line || frame[0].File != l.File) {
			t.Errorf("row %+v, and the frame is %+v", l, frame)
		}
	}
	for _, part := range [][2]uint64{{plain.Start, 1 << 60}, {1 << 60, 1<<60 + 1}, {plain.End, plain.Start}} {
		if code, err := f.Code(part[0], part[1]); err == nil {
			t.Errorf("there are %d bytes of code from %#x to %#x", len(code), part[0], part[1])
		}
	}
}

// TestSection reads the sections that unwinders need, from a program and from its debugging information.
func TestSection(t *testing.T) {
	whole := build(t, "gcc", "-g")
	file, err := elf.Open(whole)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	f := open(t, whole)
	want, err := file.Section(".eh_frame").Data()
	if err != nil {
		t.Fatal(err)
	}
	got, err := f.Section(".eh_frame")
	if err != nil || !slices.Equal(got.Data, want) || got.Addr != file.Section(".eh_frame").Addr {
		t.Errorf("%d bytes at %#x, %v", len(got.Data), got.Addr, err)
	}
	if s, err := f.Section(".debug_frame"); err == nil {
		t.Errorf("there is a .debug_frame of %d bytes", len(s.Data))
	}
	stripped, _ := split(t, "-fno-asynchronous-unwind-tables", "-fno-exceptions", "-gz")
	if s, err := open(t, stripped).Section(".debug_frame"); err != nil || len(s.Data) == 0 {
		t.Errorf("the .debug_frame of debugging information: %d bytes, %v", len(s.Data), err)
	}
}
