package object

import (
	"debug/elf"
	"encoding/binary"

	"github.com/bperf/bperf/internal/symbol"
	"github.com/bperf/bperf/internal/symbol/dwarf"
	"github.com/bperf/bperf/internal/symbol/pclntab"
)

// Frames appends the functions at an address to frames, the innermost first, with their source lines if known. It appends nothing if
// nothing is known. For the caller of a function, pass the return address minus one.
func (f *File) Frames(addr uint64, frames []symbol.Frame) []symbol.Frame {
	return f.frames(addr, frames, (*pclntab.Table).Frames, (*dwarf.Data).Frames)
}

// Functions is like Frames, but leaves out source lines, which saves time and memory.
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

// forgetAfter is the number of lookups after which pages of the file leave memory. Each lookup touches pages in several parts of the file,
// and the kernel reads nearby pages, too.
const forgetAfter = 32

// forgetNow counts a lookup, and calls forget if it is time.
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

// demangled returns the demangled name of a symbol. Many addresses share one string.
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

// Lines returns the rows of the line table for the code from start up to end, sorted by address. It returns none if the file has no lines.
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

// loadLines prepares the debugging information, which is read during lookups. Go programs with a function table need it for C code only,
// and it is large.
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

// debugImage returns the image with DWARF, or nil.
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

// debugSections returns the sections of DWARF. It skips those that it cannot read.
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

// debugSection returns a section of DWARF. It may only prepare to read it.
func (f *File) debugSection(i, loaded *image, s *elf.Section) (dwarf.Section, error) {
	if i.elf.Type == elf.ET_REL { // its sections have relocations
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

// relocate returns the contents of a section of a relocatable file with the relocations applied. Without them, all addresses, and all
// offsets in other sections, are zero.
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

// relocationSize returns the number of bytes that an absolute relocation sets, or 0 for other kinds.
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
