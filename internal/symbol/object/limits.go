package object

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
)

// These limit what is read from a file, in bytes unless noted. The owner of a program controls its file: sections can be holes of any size,
// and can overlap, and so can the names in a string table.
const (
	maxContents    = 256 << 20 // of a section, and of a symbol table with its names; those of Chrome with debugging information fit
	maxFrameInfo   = 32 << 20  // of .eh_frame or .debug_frame: Chrome has 20 MB
	maxRelocations = 64 << 20  // of all sections for the dynamic linker
	maxData        = 64 << 20  // searched for the moduledata of a Go program
	maxCopied      = 256 << 20 // of a file that cannot be mapped
	maxUnpacked    = 256 << 20 // of a file that is compressed as a whole
	maxChecked     = 1 << 30   // of a file with debugging information but without the program's build ID
	maxSegments    = 64        // number of loaded segments: linkers create less than ten
	maxSectionName = 16 << 20  // of the names of all sections
)

// These estimate the memory of symbols that are in no symbol table, from the size of their section (TestMemory). Symbols of a Go function
// table take a quarter of its size. Symbols of .gnu_debugdata, which is compressed, take eight times its size.
const (
	goSymbolsShare  = 4
	debugDataGrowth = 8
)

// checkSections limits the memory that elf.NewFile takes for section headers: it reads the table of names, and copies the name of each
// section.
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

// relocations calls yield with each relocation of the dynamic linker, up to maxRelocations bytes.
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
