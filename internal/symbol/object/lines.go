package object

import (
	"debug/elf"
	"encoding/binary"

	"github.com/bperf/bperf/internal/symbol"
	"github.com/bperf/bperf/internal/symbol/dwarf"
	"github.com/bperf/bperf/internal/symbol/pclntab"
)

// Frames appends to frames the functions at an address, the innermost first, with their source lines as far as they
// are known. It appends nothing where nothing is known. For the caller of a function, give it the return address less one.
func (f *File) Frames(addr uint64, frames []symbol.Frame) []symbol.Frame {
	return f.frames(addr, frames, (*pclntab.Table).Frames, (*dwarf.Data).Frames)
}

// Functions is like Frames, but without the places in the source, which takes less time and memory.
func (f *File) Functions(addr uint64, frames []symbol.Frame) []symbol.Frame {
	return f.frames(addr, frames, (*pclntab.Table).Functions, (*dwarf.Data).Functions)
}

func (f *File) frames(addr uint64, frames []symbol.Frame, ofGo func(*pclntab.Table, uint64, []symbol.Frame) []symbol.Frame,
	ofDWARF func(*dwarf.Data, uint64, []symbol.Frame) []symbol.Frame) []symbol.Frame {
	gotab := f.goTable()
	s, named := f.Symbol(addr)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forgetNow()
	before := len(frames)
	_ = guard(func() error { // what cannot be read leaves the symbol
		if gotab != nil {
			frames = ofGo(gotab, addr, frames)
		}
		if len(frames) == before {
			f.linesOnce.Do(f.loadLines)
			frames = ofDWARF(f.dwarf, addr, frames)
		}
		return nil
	})
	if named && len(frames) == before {
		frames = append(frames, symbol.Frame{})
	}
	for i := range frames[before:] {
		frame := &frames[before+i]
		frame.Module = f.path
		if named {
			frame.Start = s.Start
		}
	}
	if last := len(frames) - 1; last >= before && named {
		frames[last].Function = f.demangled(s.Name)
	}
	return frames
}

// forgetAfter is how many addresses are looked up before what was read for them leaves memory again. Each takes some pages, in several places,
// and the kernel brings those near it, too.
const forgetAfter = 32

// forgetNow counts what is looked up, and forgets when it is time.
func (f *File) forgetNow() {
	if f.lookups++; f.lookups%forgetAfter != 0 {
		return
	}
	for _, i := range f.images() {
		i.forget()
	}
	if f.sup != nil {
		f.sup.image.forget()
	}
	for _, z := range f.inflating {
		z.forget()
	}
}

// demangled returns the name of a symbol for a reader, of which there are many addresses, and only one string.
func (f *File) demangled(name string) string {
	plain, ok := f.names[name]
	if ok {
		return plain
	}
	if plain = symbol.Demangle(name); plain != name {
		if f.names == nil {
			f.names = make(map[string]string)
		}
		f.names[name] = plain
	}
	return plain
}

// Lines returns the rows of the line table for the code from start up to end, in the order of addresses. There are none
// where the file has no lines.
func (f *File) Lines(start, end uint64) []dwarf.Line {
	gotab := f.goTable()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forgetNow()
	var lines []dwarf.Line
	_ = guard(func() error {
		if gotab != nil {
			for _, l := range gotab.Lines(start, end) {
				lines = append(lines, dwarf.Line{Addr: l.Addr, File: l.File, Line: l.Line, Statement: true})
			}
		}
		if lines == nil {
			f.linesOnce.Do(f.loadLines)
			lines = f.dwarf.Lines(start, end)
		}
		return nil
	})
	return lines
}

// loadLines prepares the debugging information; it is read when an address is asked for. Of Go programs with their function table it is
// needed for C code only, and is large.
func (f *File) loadLines() {
	f.dwarf = dwarf.New(dwarf.Sections{})
	_ = guard(func() error {
		i := f.debugImage()
		if i == nil {
			return nil
		}
		s := f.debugSections(i, f.image)
		if f.sup != nil {
			sup := f.debugSections(f.sup.image, f.sup.image)
			s.Supplement = &sup
		}
		f.dwarf = dwarf.New(s)
		return nil
	})
}

// debugImage returns the one of the file's contents that has DWARF, or nil.
func (f *File) debugImage() *image {
	for _, i := range f.images() {
		if i.hasDWARF() {
			return i
		}
	}
	return nil
}

func (i *image) hasDWARF() bool {
	return i.section(".debug_info") != nil || i.section(".zdebug_info") != nil
}

// debugSections reads the sections of DWARF. One that cannot be read is left out.
func (f *File) debugSections(i, loaded *image) dwarf.Sections {
	read := func(name string) dwarf.Section {
		s := i.section(".debug_" + name)
		if s == nil {
			s = i.section(".zdebug_" + name)
		}
		if s == nil {
			return dwarf.Section{}
		}
		section, _ := f.debugSection(i, loaded, s)
		return section
	}
	return dwarf.Sections{
		Abbrev: read("abbrev"), Addr: read("addr"), Aranges: read("aranges"), Info: read("info"), Line: read("line"), LineStr: read("line_str"),
		Ranges: read("ranges"), RngLists: read("rnglists"), Str: read("str"), StrOffsets: read("str_offsets"),
		BigEndian: i.elf.ByteOrder == binary.BigEndian,
	}
}

// debugSection reads one, or prepares that.
func (f *File) debugSection(i, loaded *image, s *elf.Section) (dwarf.Section, error) {
	if i.elf.Type == elf.ET_REL { // it has relocations all over
		data, err := i.contents(s)
		if err != nil {
			return dwarf.Section{}, err
		}
		return dwarf.Section{Data: i.relocate(s, data, loaded)}, nil
	}
	r, size, err := i.decompressor(s)
	switch {
	case err != nil:
		return dwarf.Section{}, err
	case r == nil:
		return dwarf.Section{Data: i.slice(s.Offset, s.FileSize)}, nil
	}
	z, err := newInflating(r, size)
	if err != nil {
		return dwarf.Section{}, err
	}
	f.inflating = append(f.inflating, z)
	return dwarf.Section{Data: z.data, Fill: z.fill}, nil
}

// relocate returns the contents of a section of a relocatable file with its relocations applied: without them all
// addresses, and offsets in other sections, are zero.
func (i *image) relocate(s *elf.Section, data []byte, loaded *image) []byte {
	if i.elf.Type != elf.ET_REL || i.elf.Class != elf.ELFCLASS64 {
		return data
	}
	var symbols []uint64
	_ = i.eachSymbol(elf.SHT_SYMTAB, func(r rawSymbol, name []byte) {
		if int(r.section) < len(i.elf.Sections) && i.elf.Sections[r.section].Flags&elf.SHF_ALLOC != 0 {
			r.value += i.relocatableBase(r.section, loaded)
		}
		symbols = append(symbols, r.value)
	})
	data = append([]byte(nil), data...)
	order := i.elf.ByteOrder
	for _, rela := range i.elf.Sections {
		if rela.Type != elf.SHT_RELA || rela.Info >= uint32(len(i.elf.Sections)) || i.elf.Sections[rela.Info] != s {
			continue
		}
		entries, err := i.contents(rela)
		if err != nil {
			continue
		}
		const size = 24
		for ; len(entries) >= size; entries = entries[size:] {
			at, info, addend := order.Uint64(entries), order.Uint64(entries[8:]), order.Uint64(entries[16:])
			width := i.relocationSize(uint32(info))
			n := info >> 32
			if width == 0 || n == 0 || n > uint64(len(symbols)) || at > uint64(len(data)) || uint64(len(data))-at < uint64(width) {
				continue
			}
			if v := symbols[n-1] + addend; width == 8 {
				order.PutUint64(data[at:], v)
			} else {
				order.PutUint32(data[at:], uint32(v))
			}
		}
	}
	return data
}

// relocationSize is the number of bytes that a relocation fills with an absolute value, or 0 if it is of another kind.
func (i *image) relocationSize(kind uint32) int {
	switch i.elf.Machine {
	case elf.EM_X86_64:
		switch elf.R_X86_64(kind) {
		case elf.R_X86_64_64:
			return 8
		case elf.R_X86_64_32, elf.R_X86_64_32S:
			return 4
		}
	case elf.EM_AARCH64:
		switch elf.R_AARCH64(kind) {
		case elf.R_AARCH64_ABS64:
			return 8
		case elf.R_AARCH64_ABS32:
			return 4
		}
	}
	return 0
}
