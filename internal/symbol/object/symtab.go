package object

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"strings"

	"github.com/bperf/bperf/internal/symbol"
)

// Symbols returns the file's symbols: those of .symtab, .dynsym, .gnu_debugdata and the debugging information, and
// those of PLT entries, named function@plt. Of Go programs without any they are the functions that the runtime knows.
func (f *File) Symbols() *symbol.Table {
	f.symbolsOnce.Do(func() {
		var b symbol.Builder
		if f.symbolsErr = f.takeMemory(); f.symbolsErr != nil {
			f.symbols = b.Table()
			return
		}
		add := func(part []symbol.Symbol) {
			for _, s := range part {
				b.Add(s, []byte(s.Name))
			}
		}
		// A part that cannot be read leaves the others.
		var errs []error
		part := func(read func() error) { errs = append(errs, guard(read)) }
		for _, i := range f.images() {
			part(func() error { return i.addSymbols(&b, elf.SHT_SYMTAB, f.image) })
		}
		part(func() error { return f.image.addSymbols(&b, elf.SHT_DYNSYM, f.image) })
		part(func() error {
			symbols, err := f.image.pltSymbols()
			add(symbols)
			return err
		})
		part(func() error {
			mini, err := f.image.miniDebugInfo()
			if mini != nil {
				return mini.addSymbols(&b, elf.SHT_SYMTAB, f.image)
			}
			return err
		})
		if t := f.goTable(); t != nil && f.image.section(".symtab") == nil {
			part(func() error {
				symbols, err := t.Symbols()
				add(symbols)
				return err
			})
		}
		f.symbolsErr = errors.Join(errs...)
		f.symbols = b.Table()
		f.allowance.Give(f.whileReading())
		for _, i := range f.images() {
			i.forget()
		}
	})
	return f.symbols
}

// takeMemory takes what the symbols are going to need. An entry of a table takes what it takes in a file, and so does a name.
func (f *File) takeMemory() error {
	size := uint64(0)
	add := func(s *elf.Section, times, share uint64) {
		if s != nil && s.Size <= maxContents { // a larger one is not read
			size += s.Size * times / share
		}
	}
	for n, i := range f.images() {
		for _, kind := range []elf.SectionType{elf.SHT_SYMTAB, elf.SHT_DYNSYM} {
			s := i.elf.SectionByType(kind)
			if s == nil || n > 0 && kind == elf.SHT_DYNSYM {
				continue
			}
			add(s, 1, 1)
			if int(s.Link) < len(i.elf.Sections) {
				add(i.elf.Sections[s.Link], 1, 1)
			}
		}
	}
	if f.image.section(".symtab") == nil {
		add(f.image.goSection(), 1, goSymbolsShare)
	}
	add(f.image.section(".gnu_debugdata"), debugDataGrowth, 1)
	f.taken = int64(size)
	if err := f.allowance.Take(f.taken + f.whileReading()); err != nil {
		f.taken = 0
		return err
	}
	return nil
}

// whileReading is what symbols take besides while they are read: what is mapped of the file, and copies of names without those of aliases.
func (f *File) whileReading() int64 { return f.taken * 3 / 2 }

// Load reads the symbols now, and not when the first one is looked up; with lines also the function table of a Go program.
func (f *File) Load(lines bool) {
	f.Symbols()
	if lines {
		f.goTable()
	}
}

// SymbolsError says why Symbols are not all that the file claims to have, or nil.
func (f *File) SymbolsError() error {
	f.Symbols()
	return f.symbolsErr
}

// Symbol returns the symbol at an address; false if there is none. After the first call, it does not allocate.
func (f *File) Symbol(addr uint64) (symbol.Symbol, bool) {
	s, ok := f.Symbols().Find(addr)
	if ok && f.image.crosses(s.Start, addr) {
		return symbol.Symbol{}, false
	}
	return s, ok
}

// rawSymbol is an entry of a symbol table: Elf64_Sym, or Elf32_Sym made longer.
type rawSymbol struct {
	name        uint32
	info, other byte
	section     elf.SectionIndex
	value, size uint64
}

// eachSymbol calls yield with each entry of the table of a kind, but for the first, which is none. The name is part of the file. A table that is
// larger than a program can have is an error, which can come after some entries.
func (i *image) eachSymbol(kind elf.SectionType, yield func(rawSymbol, []byte)) error {
	s := i.elf.SectionByType(kind)
	if s == nil || uint64(s.Link) >= uint64(len(i.elf.Sections)) {
		return nil
	}
	table, err := i.contents(s)
	if err != nil {
		return err
	}
	names, err := i.contents(i.elf.Sections[s.Link])
	if err != nil {
		return err
	}
	size := elf.Sym64Size
	if i.elf.Class == elf.ELFCLASS32 {
		size = elf.Sym32Size
	}
	if len(table)+len(names) > maxContents || len(table)/size > symbol.MaxSymbols {
		return fmt.Errorf("%s has %d symbols in %d bytes, and at most %d in %d are read", s.Name, len(table)/size, len(table)+len(names), symbol.MaxSymbols, maxContents)
	}
	left := symbol.MaxNames(len(names))
	for n := size; n+size <= len(table); n += size {
		r := i.decodeSymbol(table[n:])
		name := names[min(uint64(r.name), uint64(len(names))):]
		if end := bytes.IndexByte(name, 0); end >= 0 {
			name = name[:end]
		}
		if left -= len(name); left < 0 {
			return fmt.Errorf("the names in %s overlap, and have more than %d bytes", s.Name, symbol.MaxNames(len(names)))
		}
		yield(r, name)
	}
	return nil
}

func (i *image) decodeSymbol(b []byte) rawSymbol {
	order := i.elf.ByteOrder
	if i.elf.Class == elf.ELFCLASS32 {
		return rawSymbol{
			name: order.Uint32(b), value: uint64(order.Uint32(b[4:])), size: uint64(order.Uint32(b[8:])),
			info: b[12], other: b[13], section: elf.SectionIndex(order.Uint16(b[14:])),
		}
	}
	return rawSymbol{
		name: order.Uint32(b), info: b[4], other: b[5], section: elf.SectionIndex(order.Uint16(b[6:])),
		value: order.Uint64(b[8:]), size: order.Uint64(b[16:]),
	}
}

// addSymbols adds the functions, objects and labels of a symbol table. The sections that symbols are in are those of
// loaded, whose debugging information i may be: there they have no contents, but may have other offsets.
func (i *image) addSymbols(b *symbol.Builder, kind elf.SectionType, loaded *image) error {
	count, size := 0, 0
	err := i.eachSymbol(kind, func(r rawSymbol, name []byte) {
		if i.wanted(r, name) {
			count, size = count+1, size+len(name)
		}
	})
	if err != nil {
		return err
	}
	b.Grow(count, size)
	return i.eachSymbol(kind, func(r rawSymbol, name []byte) {
		if !i.wanted(r, name) {
			return
		}
		value := r.value
		if i.elf.Type == elf.ET_REL {
			if int(r.section) >= len(i.elf.Sections) || i.elf.Sections[r.section].Flags&elf.SHF_ALLOC == 0 {
				return
			}
			value += i.relocatableBase(r.section, loaded)
		}
		if i.elf.Machine == elf.EM_ARM && elf.ST_TYPE(r.info) == elf.STT_FUNC {
			value &^= 1 // the bit that says that it is Thumb code
		}
		if value+r.size < value {
			return
		}
		binding := symbol.Binding(elf.ST_BIND(r.info))
		if elf.ST_BIND(r.info) == elf.STB_LOOS { // unique in the process, which is global
			binding = symbol.Global
		}
		b.Add(symbol.Symbol{Start: value, End: value + r.size, Binding: binding}, name)
	})
}

// relocatableBase is the address of a section: of the loaded file, which has one of the same name.
func (i *image) relocatableBase(section elf.SectionIndex, loaded *image) uint64 {
	s := i.elf.Sections[section]
	if i != loaded {
		if same := loaded.section(s.Name); same != nil {
			return same.Addr
		}
	}
	return s.Addr
}

// wanted tells symbols of code and data from those that only structure the file. What perf shows is the measure.
func (i *image) wanted(r rawSymbol, name []byte) bool {
	if len(name) == 0 || r.section == elf.SHN_UNDEF || r.section == elf.SHN_ABS || r.section == elf.SHN_COMMON {
		return false
	}
	switch elf.ST_TYPE(r.info) {
	case elf.STT_FUNC, elf.STT_GNU_IFUNC, elf.STT_OBJECT:
		return true
	case elf.STT_NOTYPE:
		return i.isLabel(r, name)
	}
	return false
}

// isLabel says whether a symbol without a type names code or data, as assembler files have them.
func (i *image) isLabel(r rawSymbol, name []byte) bool {
	if v := elf.ST_VISIBILITY(r.other); v == elf.STV_HIDDEN || v == elf.STV_INTERNAL {
		return false
	}
	if int(r.section) >= len(i.elf.Sections) {
		return false
	}
	section := i.elf.Sections[r.section].Name
	return (strings.Contains(section, ".text") || strings.Contains(section, ".data")) && !i.isMappingSymbol(name)
}

// isMappingSymbol tells the marks that ARM and RISC-V assemblers set between code and data.
func (i *image) isMappingSymbol(name []byte) bool {
	if len(name) < 2 || name[0] != '$' {
		return false
	}
	switch i.elf.Machine {
	case elf.EM_ARM, elf.EM_AARCH64:
		return strings.IndexByte("adtx", name[1]) >= 0 && (len(name) == 2 || name[2] == '.')
	case elf.EM_RISCV:
		return name[1] == 'x' || name[1] == 'd'
	}
	return false
}
