package object

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// hostile builds an ELF file of sections. The first two are .symtab and its names; the names of more sections can be given.
func hostile(sectionNames []byte, nameOf func(n int) uint32, count int, symbols, names []byte) []byte {
	const header, entry = 64, 64
	h := elf.Header64{Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: 1, Ehsize: header, Shentsize: entry, Shnum: uint16(count), Shstrndx: 1}
	copy(h.Ident[:], elf.ELFMAG+"\x02\x01\x01")
	h.Shoff = header
	at := uint64(header + count*entry)
	var b bytes.Buffer
	put := func(v any) { _ = binary.Write(&b, binary.LittleEndian, v) }
	put(h)
	for n := range count {
		s := elf.Section64{Name: nameOf(n)}
		switch n {
		case 1:
			s.Type, s.Off, s.Size = uint32(elf.SHT_STRTAB), at, uint64(len(sectionNames))
		case 2:
			s.Type, s.Off, s.Size, s.Link, s.Entsize = uint32(elf.SHT_SYMTAB), at+uint64(len(sectionNames)), uint64(len(symbols)), 3, 24
		case 3:
			s.Type, s.Off, s.Size = uint32(elf.SHT_STRTAB), at+uint64(len(sectionNames)+len(symbols)), uint64(len(names))
		}
		put(s)
	}
	b.Write(sectionNames)
	b.Write(symbols)
	b.Write(names)
	return b.Bytes()
}

// overlapping returns symbols whose names each begin one byte after the previous one.
func overlapping(count int) []byte {
	var b bytes.Buffer
	for n := range count {
		s := elf.Sym64{Name: uint32(n), Info: uint8(elf.STT_FUNC), Shndx: 1, Value: uint64(n) * 16, Size: 16}
		_ = binary.Write(&b, binary.LittleEndian, s)
	}
	return b.Bytes()
}

// allocated returns the number of bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func noName(int) uint32 { return 0 }

func TestOverlappingNames(t *testing.T) {
	f, err := parse("a", hostile([]byte{0}, noName, 4, overlapping(5000), append(bytes.Repeat([]byte("a"), 1<<20), 0)))
	if err != nil {
		t.Fatal(err)
	}
	if n := allocated(func() { f.Symbols() }); n > 16<<20 {
		t.Errorf("%d bytes are allocated for symbols of a MiB", n)
	}
	if err := f.SymbolsError(); err == nil || !strings.Contains(err.Error(), "overlap") {
		t.Errorf("error %v", err)
	}
}

func TestOverlappingSectionNames(t *testing.T) {
	file := hostile(append(bytes.Repeat([]byte("a"), 1<<20), 0), func(n int) uint32 { return uint32(n) }, 1000, nil, nil)
	var err error
	if n := allocated(func() { _, err = parse("a", file) }); n > 16<<20 || err == nil || !strings.Contains(err.Error(), "names of its sections") {
		t.Errorf("%d bytes are allocated, error %v", n, err)
	}
}

// TestHoles has sections larger than any program, in a file that takes no space.
func TestHoles(t *testing.T) {
	const size = 8 << 30
	path := filepath.Join(t.TempDir(), "a")
	file := hostile([]byte("\x00.eh_frame\x00"), noName, 5, nil, nil)
	order := binary.LittleEndian
	for n, name := range map[int]uint32{2: 0, 4: 1} {
		section := file[64+64*n:]
		order.PutUint32(section, name)
		order.PutUint32(section[4:], uint32(map[int]elf.SectionType{2: elf.SHT_SYMTAB, 4: elf.SHT_PROGBITS}[n]))
		order.PutUint64(section[24:], uint64(len(file)))
		order.PutUint64(section[32:], size)
	}
	write(t, path, file)
	if err := os.Truncate(path, size+1<<20); err != nil {
		t.Fatal(err)
	}
	f := open(t, path)
	if err := f.SymbolsError(); err == nil || !strings.Contains(err.Error(), "8589934592 bytes") {
		t.Errorf("symbols: error %v", err)
	}
	if _, err := f.Section(".eh_frame"); err == nil || !strings.Contains(err.Error(), "8589934592 bytes") {
		t.Errorf("call frame information: error %v", err)
	}
}

// TestLargeDebugFile has a file of debugging information that is too large to compute its checksum.
func TestLargeDebugFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	write(t, path, hostile([]byte{0}, noName, 4, nil, nil))
	if err := os.Truncate(path, 1<<30+1); err != nil {
		t.Fatal(err)
	}
	f, err := candidate{path: path}.openSum(nil, "", 0)
	if err == nil {
		_ = f.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "1073741825 bytes") {
		t.Errorf("error %v", err)
	}
}

// TestManySegments has as many segments as an ELF file can have. Only maxSegments of them must be searched.
func TestManySegments(t *testing.T) {
	const count = 65_000
	h := elf.Header64{Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: 1, Ehsize: 64, Phoff: 64, Phentsize: 56, Phnum: count}
	copy(h.Ident[:], elf.ELFMAG+"\x02\x01\x01")
	var b bytes.Buffer
	_ = binary.Write(&b, binary.LittleEndian, h)
	for n := range uint64(count) {
		_ = binary.Write(&b, binary.LittleEndian, elf.Prog64{Type: uint32(elf.PT_LOAD), Off: n * 16, Vaddr: n << 20, Filesz: 16, Memsz: 16})
	}
	f, err := parse("a", b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if n := len(f.image.segments); n != maxSegments {
		t.Errorf("%d segments", n)
	}
	if code, err := f.Code(1<<20, 1<<20+4); err != nil || len(code) != 4 {
		t.Errorf("the code of the second segment: %x, %v", code, err)
	}
}
