package object

import (
	"debug/elf"
	"encoding/binary"

	"github.com/bperf/bperf/internal/symbol/dwarf"
)

// debugInfo is the DWARF of a file. It is only prepared when it is first needed, and read during lookups: it is large, and Go programs with
// a function table need it for C code only.
type debugInfo struct {
	data      *dwarf.Data // nil until needed
	inflating []*inflating
	mangled   bool   // keep names as compilers made them
	store     *store // nil to store no sections
}

// dwarf returns the DWARF of the file and of its supplement. The caller holds f.mu.
func (f *File) dwarf() *dwarf.Data {
	d := &f.debugInfo
	if d.data != nil {
		return d.data
	}
	d.data = dwarf.New(dwarf.Sections{})
	_ = guard(func() error {
		i := f.debugImage()
		if i == nil {
			return nil
		}
		s := d.sections(i, f.image)
		if f.sup != nil {
			sup := d.sections(f.sup.image, f.sup.image)
			s.Supplement = &sup
		}
		d.data = dwarf.New(s)
		return nil
	})
	return d.data
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

// sections returns the sections of DWARF. It skips those that it cannot read.
func (d *debugInfo) sections(i, loaded *image) dwarf.Sections {
	read := func(name string) dwarf.Section {
		s := i.section(".debug_" + name)
		if s == nil {
			s = i.section(".zdebug_" + name)
		}
		if s == nil {
			return dwarf.Section{}
		}
		section, _ := d.section(i, loaded, s)
		return section
	}
	return dwarf.Sections{
		Abbrev: read("abbrev"), Addr: read("addr"), Aranges: read("aranges"), Info: read("info"), Line: read("line"), LineStr: read("line_str"),
		Ranges: read("ranges"), RngLists: read("rnglists"), Str: read("str"), StrOffsets: read("str_offsets"),
		BigEndian: i.elf.ByteOrder == binary.BigEndian, Mangled: d.mangled,
	}
}

// section returns a section of DWARF. It may only prepare to read it.
func (d *debugInfo) section(i, loaded *image, s *elf.Section) (dwarf.Section, error) {
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
	z, err := newInflating(r, size, i.slice(s.Offset, s.FileSize), d.store)
	if err != nil {
		return dwarf.Section{}, err
	}
	d.inflating = append(d.inflating, z)
	return dwarf.Section{Data: z.data, Fill: z.fill}, nil
}

// relocate returns the contents of a section of a relocatable file with the relocations applied. Without them, all addresses, and all
// offsets in other sections, are zero.
func (i *image) relocate(s *elf.Section, data []byte, loaded *image) []byte {
	if i.elf.Type != elf.ET_REL || i.elf.Class != elf.ELFCLASS64 {
		return data
	}
	var symbols []uint64
	if all, err := (symbolTable{i, elf.SHT_SYMTAB}).read(); err == nil {
		for n := 1; n < all.count(); n++ {
			r := all.at(n)
			if int(r.section) < len(i.elf.Sections) && i.elf.Sections[r.section].Flags&elf.SHF_ALLOC != 0 {
				r.value += i.relocatableBase(r.section, loaded)
			}
			symbols = append(symbols, r.value)
		}
	}
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
			width := relocationSize(i.elf.Machine, uint32(info))
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
func relocationSize(machine elf.Machine, kind uint32) int {
	switch machine {
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
