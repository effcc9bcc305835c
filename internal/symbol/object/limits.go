package object

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
)

// What is read of a file at most. Whoever runs a program decides what its file says: sections can be holes of any size, can overlap, and so can
// the names in a table of strings. Sizes are in bytes.
const (
	maxContents    = 256 << 20 // of a section, and of the two of a symbol table; that of Chrome with debugging information fits
	maxFrameInfo   = 32 << 20  // of .eh_frame or .debug_frame: Chrome has 20 MB
	maxRelocations = 64 << 20  // of all sections for the dynamic linker
	maxData        = 64 << 20  // that is searched for the description of a Go program
	maxCopied      = 256 << 20 // of a file that is not mapped
	maxUnpacked    = 256 << 20 // of a file that is compressed as a whole
	maxChecked     = 1 << 30   // of a file of debugging information without the build ID of its program
	maxSegments    = 64        // number that are loaded: linkers make less than ten
	maxSectionName = 16 << 20  // of the names of all sections
)

// What symbols take that are in no symbol table, by the size of the section: those of a Go program's function table take a part of it, and
// compressed ones some times as much (TestMemory).
const (
	goSymbolsShare  = 4
	debugDataGrowth = 8
)

// checkSections bounds what elf.NewFile makes of section headers: it reads the table of names, and copies the name of each section.
func checkSections(file []byte) error {
	if len(file) < 64 || !bytes.HasPrefix(file, []byte(elf.ELFMAG)) {
		return nil // elf.NewFile reports it
	}
	var order binary.ByteOrder = binary.LittleEndian
	if elf.Data(file[elf.EI_DATA]) == elf.ELFDATA2MSB {
		order = binary.BigEndian
	}
	wide := elf.Class(file[elf.EI_CLASS]) == elf.ELFCLASS64
	// e_shoff, e_shentsize, e_shnum and e_shstrndx; sh_flags, sh_offset and sh_size.
	table, counts, flagsAt, offsetAt, sizeAt := uint64(order.Uint32(file[32:])), file[46:], 8, 16, 20
	number := func(b []byte) uint64 { return uint64(order.Uint32(b)) }
	if wide {
		table, counts, flagsAt, offsetAt, sizeAt = order.Uint64(file[40:]), file[58:], 8, 24, 32
		number = order.Uint64
	}
	entry, count, names := uint64(order.Uint16(counts)), uint64(order.Uint16(counts[2:])), uint64(order.Uint16(counts[4:]))
	if table == 0 || count > 0 && names == 0 {
		return nil
	}
	if count == 0 {
		return errors.New("it has section headers, but says not how many, or more than 65,279")
	}
	i := &image{data: file}
	header := func(n uint64) []byte {
		if h := i.slice(table+n*entry, entry); table+n*entry >= table && len(h) >= 40 && (!wide || len(h) >= 64) {
			return h
		}
		return nil
	}
	strings := header(names)
	if strings == nil {
		return nil // elf.NewFile reports it
	}
	if elf.SectionFlag(number(strings[flagsAt:]))&elf.SHF_COMPRESSED != 0 || number(strings[sizeAt:]) > maxSectionName {
		return fmt.Errorf("the names of its sections are compressed, or longer than %d bytes", maxSectionName)
	}
	text, left := i.slice(number(strings[offsetAt:]), number(strings[sizeAt:])), maxSectionName
	for n := range count {
		h := header(n)
		if h == nil {
			return nil
		}
		name, _, _ := bytes.Cut(text[min(uint64(order.Uint32(h)), uint64(len(text))):], []byte{0})
		if left -= len(name); left < 0 {
			return fmt.Errorf("the names of its sections have more than %d bytes", maxSectionName)
		}
	}
	return nil
}

// relocations calls yield with the relocations that the dynamic linker applies, as far as they are read.
func (i *image) relocations(yield func(at, info, addend uint64)) {
	order, left := i.elf.ByteOrder, uint64(maxRelocations)
	for _, s := range i.elf.Sections {
		if s.Type != elf.SHT_RELA || s.Flags&elf.SHF_ALLOC == 0 {
			continue
		}
		const size = 24
		entries := i.slice(s.Offset, min(s.FileSize, left))
		left -= uint64(len(entries))
		for ; len(entries) >= size; entries = entries[size:] {
			yield(order.Uint64(entries), order.Uint64(entries[8:]), order.Uint64(entries[16:]))
		}
	}
}
