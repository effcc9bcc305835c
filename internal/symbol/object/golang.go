package object

import (
	"debug/elf"
	"strings"

	"github.com/bperf/bperf/internal/symbol/pclntab"
)

// readGoTable returns the function table of a Go program, or nil. It finds the addresses that the table refers to by symbols, or, in
// stripped programs, by runtime.moduledata.
func (i *image) readGoTable() *pclntab.Table {
	section := i.goSection()
	if section == nil {
		return nil
	}
	table, err := i.contents(section)
	if err != nil {
		return nil
	}
	text, gofunc := i.goSymbols()
	if text == 0 || gofunc == 0 {
		if t, g, ok := i.goModule(section.Addr, table); ok {
			text, gofunc = t, g
		}
	}
	if s := i.section(".text"); text == 0 && s != nil {
		text = s.Addr
	}
	t, err := pclntab.New(table, i.elf.ByteOrder, text, i.at(gofunc, ^uint64(0)))
	if err != nil {
		return nil // older programs have DWARF
	}
	return t
}

// goSection returns the section with the function table of a Go program, or nil.
func (i *image) goSection() *elf.Section {
	for _, name := range []string{".gopclntab", ".data.rel.ro.gopclntab"} {
		if s := i.section(name); s != nil {
			return s
		}
	}
	return nil
}

// goSymbols returns the base addresses of functions and of inlined calls, from symbols.
func (i *image) goSymbols() (text, gofunc uint64) {
	all, err := symbolTable{i, elf.SHT_SYMTAB}.read()
	if err != nil {
		return 0, 0 // Symbols reports the error
	}
	for n := 1; n < all.count(); n++ {
		switch s := all.at(n); {
		case all.isNamed(s, "runtime.text"):
			text = s.value
		case all.isNamed(s, "go:func.*"), all.isNamed(s, "go.func.*"):
			gofunc = s.value
		}
	}
	return text, gofunc
}

// These are indexes of words in runtime.moduledata. Go 1.20 inserted two words before the last of them, whose index in Go 1.18 is
// moduleGoFunc18.
const (
	moduleMinPC    = 20
	moduleMaxPC    = 21
	moduleText     = 22
	moduleGoFunc18 = 38
	moduleGoFunc20 = 40
)

// goModule searches for runtime.moduledata, which starts with the address of the function table.
func (i *image) goModule(tableAddr uint64, table []byte) (text, gofunc uint64, ok bool) {
	if i.elf.Class != elf.ELFCLASS64 || len(table) < 8 {
		return 0, 0, false
	}
	relocated := i.relativeRelocations()
	word := func(addr uint64) uint64 {
		if v, ok := relocated[addr]; ok {
			return v
		}
		if b := i.at(addr, 8); len(b) == 8 {
			return i.elf.ByteOrder.Uint64(b)
		}
		return 0
	}
	last := uint64(moduleGoFunc20)
	if i.elf.ByteOrder.Uint32(table) == pclntab.Go118Magic {
		last = moduleGoFunc18
	}
	left := uint64(maxData)
	for _, s := range i.elf.Sections {
		if s.Type != elf.SHT_PROGBITS || s.Flags&elf.SHF_WRITE == 0 || !strings.Contains(s.Name, "data") && s.Name != ".go.module" {
			continue
		}
		searched := min(s.Size, left)
		left -= searched
		for addr := (s.Addr + 7) &^ 7; addr+8*(last+1) <= s.Addr+searched && addr >= s.Addr; addr += 8 {
			if word(addr) != tableAddr {
				continue
			}
			text, gofunc = word(addr+8*moduleText), word(addr+8*last)
			if lo := word(addr + 8*moduleMinPC); text != 0 && text <= lo && lo < word(addr+8*moduleMaxPC) {
				return text, gofunc, true
			}
		}
	}
	return 0, 0, false
}

// relativeRelocations returns the words that the dynamic linker sets to addresses in the file, in position-independent programs.
func (i *image) relativeRelocations() map[uint64]uint64 {
	words := make(map[uint64]uint64)
	i.relocations(func(at, info, addend uint64) {
		if kind := uint32(info); i.elf.Machine == elf.EM_X86_64 && elf.R_X86_64(kind) == elf.R_X86_64_RELATIVE ||
			i.elf.Machine == elf.EM_AARCH64 && elf.R_AARCH64(kind) == elf.R_AARCH64_RELATIVE {
			words[at] = addend
		}
	})
	return words
}
