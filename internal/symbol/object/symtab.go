package object

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bperf/bperf/internal/symbol"
	"github.com/bperf/bperf/internal/symbol/pclntab"
)

// Symbols returns the symbols of .symtab, .dynsym, .gnu_debugdata and the debugging information, and those of PLT entries, which are named
// function@plt. For Go programs without .symtab, it adds the functions of the runtime's function table.
func (f *File) Symbols() *symbol.Table {
	f.symbolsOnce.Do(func() {
		var b symbol.Builder
		if f.symbolsErr = f.takeMemory(); f.symbolsErr != nil {
			f.symbols = b.Table()
			return
		}
		// If one part cannot be read, the others are kept.
		var errs []error
		part := func(read func() error) { errs = append(errs, guard(read)) }
		for _, i := range f.images() {
			part(func() error { return symbolTable{i, elf.SHT_SYMTAB}.add(&b, f.image) })
		}
		part(func() error { return symbolTable{f.image, elf.SHT_DYNSYM}.add(&b, f.image) })
		part(func() error { return f.image.addPLT(&b) })
		part(func() error {
			mini, err := f.image.miniDebugInfo()
			if mini != nil {
				return symbolTable{mini, elf.SHT_SYMTAB}.add(&b, f.image)
			}
			return err
		})
		if f.image.section(".symtab") == nil { // with it, the function table would only be read in vain
			if t := f.goTable(); t != nil {
				part(func() error { return t.AddTo(&b) })
			}
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

// takeMemory reserves the memory that symbols will take. A symbol and its name take as much as in the file.
func (f *File) takeMemory() error {
	size := uint64(0)
	add := func(s *elf.Section, times, share uint64) {
		if s != nil && s.Size <= maxContents { // larger ones are not read
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

// whileReading returns the additional memory while symbols are read: mapped parts of the file, and copies for sorting and of the names without
// those of aliases.
func (f *File) whileReading() int64 { return f.taken * 2 }

// findOnlyGo returns the function table of a Go program, or nil if Symbols has more than its functions.
func (f *File) findOnlyGo() *pclntab.Table {
	has := func(kind elf.SectionType) bool { return f.image.elf.SectionByType(kind) != nil }
	others := []string{".gnu_debugdata", ".plt", ".plt.sec", ".plt.got"}
	if f.debug != nil || has(elf.SHT_SYMTAB) || has(elf.SHT_DYNSYM) ||
		slices.ContainsFunc(others, func(name string) bool { return f.image.section(name) != nil }) {
		return nil
	}
	return f.goTable()
}

// Load reads the symbols now instead of at the first lookup. With lines, it also reads the function table of a Go program.
func (f *File) Load(lines bool) {
	if f.onlyGo() == nil {
		f.Symbols()
	}
	if lines {
		f.goTable()
	}
}

// SymbolsError returns the reason why Symbol does not find all symbols, or nil.
func (f *File) SymbolsError() error {
	if f.onlyGo() != nil {
		return nil
	}
	f.Symbols()
	return f.symbolsErr
}

// Symbol returns the symbol that contains an address, and false if there is none. A file with nothing but a function table of Go is searched
// there: making a table of all its symbols takes milliseconds. After the first call, Symbol allocates nothing but names.
func (f *File) Symbol(addr uint64) (s symbol.Symbol, ok bool) {
	if t := f.onlyGo(); t != nil {
		_ = guard(func() error { s, ok = t.Symbol(addr); return nil })
		return s, ok
	}
	s, ok = f.Symbols().Find(addr)
	if ok && f.image.code.crosses(s.Start, addr) {
		return symbol.Symbol{}, false
	}
	return s, ok
}

// rawSymbol is an entry of a symbol table: Elf64_Sym, or a widened Elf32_Sym.
type rawSymbol struct {
	name        uint32
	info, other byte
	section     elf.SectionIndex
	value, size uint64
}

// symbolTable is a symbol table of a file. kind is elf.SHT_SYMTAB or elf.SHT_DYNSYM.
type symbolTable struct {
	*image
	kind elf.SectionType
}

// rawSymbols holds the entries of a symbol table and their names, as they are in the file.
type rawSymbols struct {
	table, names []byte
	order        binary.ByteOrder
	little64     bool // Elf64_Sym in little-endian order, as on all machines that bperf runs on
	size         int  // of an entry, in bytes
}

// read returns the entries. There are none if the file has no such table. read fails if the table is larger than that of any program.
func (t symbolTable) read() (rawSymbols, error) {
	s := t.elf.SectionByType(t.kind)
	if s == nil || uint64(s.Link) >= uint64(len(t.elf.Sections)) {
		return rawSymbols{size: elf.Sym64Size}, nil
	}
	r := rawSymbols{order: t.elf.ByteOrder, size: elf.Sym64Size}
	r.little64 = t.elf.Class == elf.ELFCLASS64 && t.elf.ByteOrder == binary.LittleEndian
	if t.elf.Class == elf.ELFCLASS32 {
		r.size = elf.Sym32Size
	}
	var err error
	if r.table, err = t.contents(s); err != nil {
		return rawSymbols{}, err
	}
	if r.names, err = t.contents(t.elf.Sections[s.Link]); err != nil {
		return rawSymbols{}, err
	}
	if len(r.table)+len(r.names) > maxContents || r.count() > symbol.MaxSymbols {
		return rawSymbols{}, fmt.Errorf("%s has %d symbols in %d bytes, and at most %d in %d are read",
			s.Name, r.count(), len(r.table)+len(r.names), symbol.MaxSymbols, maxContents)
	}
	return r, nil
}

// count returns the number of entries. The entry 0 is none.
func (r *rawSymbols) count() int { return len(r.table) / r.size }

func (r *rawSymbols) at(n int) rawSymbol {
	b := r.table[n*r.size:][:r.size]
	switch {
	case r.little64: // without calls of an interface, which took a twentieth of the time of a report
		return rawSymbol{
			name: binary.LittleEndian.Uint32(b), info: b[4], other: b[5], section: elf.SectionIndex(binary.LittleEndian.Uint16(b[6:])),
			value: binary.LittleEndian.Uint64(b[8:]), size: binary.LittleEndian.Uint64(b[16:]),
		}
	case r.size == elf.Sym32Size:
		return rawSymbol{
			name: r.order.Uint32(b), value: uint64(r.order.Uint32(b[4:])), size: uint64(r.order.Uint32(b[8:])),
			info: b[12], other: b[13], section: elf.SectionIndex(r.order.Uint16(b[14:])),
		}
	}
	return rawSymbol{
		name: r.order.Uint32(b), info: b[4], other: b[5], section: elf.SectionIndex(r.order.Uint16(b[6:])),
		value: r.order.Uint64(b[8:]), size: r.order.Uint64(b[16:]),
	}
}

// name returns the name of an entry, as a part of the file.
func (r *rawSymbols) name(s rawSymbol) []byte {
	name := r.names[min(uint64(s.name), uint64(len(r.names))):]
	if end := bytes.IndexByte(name, 0); end >= 0 {
		name = name[:end]
	}
	return name
}

// head returns the first three bytes of a name, or fewer if the name is shorter.
func (r *rawSymbols) head(s rawSymbol) []byte {
	from := min(uint64(s.name), uint64(len(r.names)))
	head := r.names[from:min(from+3, uint64(len(r.names)))]
	if end := bytes.IndexByte(head, 0); end >= 0 {
		head = head[:end]
	}
	return head
}

// isNamed reports whether an entry has this name. Other names it does not read to their end.
func (r *rawSymbols) isNamed(s rawSymbol, name string) bool {
	from := min(uint64(s.name), uint64(len(r.names)))
	rest := r.names[from:min(from+uint64(len(name))+1, uint64(len(r.names)))]
	return len(rest) > len(name) && string(rest[:len(name)]) == name && rest[len(name)] == 0
}

// add adds the functions, objects and labels. If the table is of the debugging information of loaded, its sections have no contents and may
// have other offsets. So add uses the sections of loaded.
func (t symbolTable) add(b *symbol.Builder, loaded *image) error {
	all, err := t.read()
	if err != nil {
		return err
	}
	count, size, most := 0, 0, symbol.MaxNames(len(all.names))
	for n := 1; n < all.count(); n++ {
		r := all.at(n)
		if !t.wanted(&all, r) {
			continue
		}
		count, size = count+1, size+len(all.name(r))
		if size > most {
			return fmt.Errorf("the names in the symbol table overlap, and have more than %d bytes", most)
		}
	}
	b.Grow(count, size)
	for n := 1; n < all.count(); n++ {
		r := all.at(n)
		if !t.wanted(&all, r) {
			continue
		}
		value := r.value
		if t.elf.Type == elf.ET_REL {
			if int(r.section) >= len(t.elf.Sections) || t.elf.Sections[r.section].Flags&elf.SHF_ALLOC == 0 {
				continue
			}
			value += t.relocatableBase(r.section, loaded)
		}
		if t.elf.Machine == elf.EM_ARM && elf.ST_TYPE(r.info) == elf.STT_FUNC {
			value &^= 1 // the bit for Thumb code
		}
		if value+r.size < value {
			continue
		}
		binding := symbol.Binding(elf.ST_BIND(r.info))
		if elf.ST_BIND(r.info) == elf.STB_LOOS { // STB_GNU_UNIQUE, which is global
			binding = symbol.Global
		}
		b.Add(symbol.Symbol{Start: value, End: value + r.size, Binding: binding}, all.name(r))
	}
	return nil
}

// relocatableBase returns the address of a section: that of the section with the same name in loaded, if there is one.
func (i *image) relocatableBase(section elf.SectionIndex, loaded *image) uint64 {
	s := i.elf.Sections[section]
	if i != loaded {
		if same := loaded.section(s.Name); same != nil {
			return same.Addr
		}
	}
	return s.Addr
}

// wanted reports whether a symbol is of code or data, and not of the file's structure. It selects the symbols that perf shows.
func (t symbolTable) wanted(all *rawSymbols, r rawSymbol) bool {
	head := all.head(r)
	if len(head) == 0 || r.section == elf.SHN_UNDEF || r.section == elf.SHN_ABS || r.section == elf.SHN_COMMON {
		return false
	}
	switch elf.ST_TYPE(r.info) {
	case elf.STT_FUNC, elf.STT_GNU_IFUNC, elf.STT_OBJECT:
		return true
	case elf.STT_NOTYPE:
		return t.isLabel(r, head)
	}
	return false
}

// isLabel reports whether a symbol without a type names code or data, as in assembler files.
func (t symbolTable) isLabel(r rawSymbol, head []byte) bool {
	if v := elf.ST_VISIBILITY(r.other); v == elf.STV_HIDDEN || v == elf.STV_INTERNAL {
		return false
	}
	if int(r.section) >= len(t.elf.Sections) {
		return false
	}
	section := t.elf.Sections[r.section].Name
	return (strings.Contains(section, ".text") || strings.Contains(section, ".data")) && !isMappingSymbol(t.elf.Machine, head)
}

// isMappingSymbol reports whether a name, of which only the first three bytes matter, marks the border of code and data, as ARM and RISC-V
// assemblers write them.
func isMappingSymbol(machine elf.Machine, name []byte) bool {
	if len(name) < 2 || name[0] != '$' {
		return false
	}
	switch machine {
	case elf.EM_ARM, elf.EM_AARCH64:
		return strings.IndexByte("adtx", name[1]) >= 0 && (len(name) == 2 || name[2] == '.')
	case elf.EM_RISCV:
		return name[1] == 'x' || name[1] == 'd'
	}
	return false
}
