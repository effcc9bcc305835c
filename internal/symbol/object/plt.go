package object

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/bperf/bperf/internal/symbol"
)

// addPLT adds a symbol for each entry of the procedure linkage table. Linkers use several layouts, so addPLT decodes each entry to find the
// slot of the global offset table that it jumps through. The relocation of the slot refers to the symbol with the name.
func (i *image) addPLT(b *symbol.Builder) error {
	tables := slices.DeleteFunc(slices.Clone(i.elf.Sections), func(s *elf.Section) bool {
		return s.Name != ".plt" && s.Name != ".plt.sec" && s.Name != ".plt.got" || s.Type != elf.SHT_PROGBITS
	})
	if len(tables) == 0 || i.elf.Class != elf.ELFCLASS64 {
		return nil
	}
	all, err := symbolTable{i, elf.SHT_DYNSYM}.read()
	if err != nil {
		return err
	}
	slots := i.slots(all.count())
	code, names := uint64(maxContents), symbol.MaxNames(0) // what is left of the limits
	for _, s := range tables {
		table := i.slice(s.Offset, min(s.FileSize, code))
		code -= uint64(len(table))
		size := int(s.Entsize)
		if size < 8 || size > 64 || size%4 != 0 {
			size = 16
		}
		if i.elf.Machine == elf.EM_AARCH64 {
			size = 4 // the head of the table has another size, so the first instruction identifies an entry
		}
		for at := 0; at+size <= len(table); at += size {
			slot, length := jumpSlot(i.elf.Machine, table[at:], s.Addr+uint64(at), size)
			n, ok := slots[slot]
			if !ok || length == 0 {
				continue
			}
			if name := all.name(all.at(int(n))); len(name) > 0 {
				if names -= len(name); names < 0 {
					return fmt.Errorf("the names of entries of %s overlap, and have more than %d bytes", s.Name, symbol.MaxNames(0))
				}
				start := s.Addr + uint64(at)
				b.Add(symbol.Symbol{Start: start, End: start + uint64(length), Binding: symbol.Global}, append(slices.Clip(name), "@plt"...))
				at += length - size
			}
		}
	}
	return nil
}

// jumpSlot returns the address that a PLT entry reads its target from, and the length of the entry. The length is 0 if code is no entry.
func jumpSlot(machine elf.Machine, code []byte, addr uint64, size int) (slot uint64, length int) {
	switch machine {
	case elf.EM_X86_64:
		// jmp *displacement(%rip), after a mark for the target of an indirect jump
		for n := 0; n+6 <= size; n++ {
			if code[n] == 0xff && code[n+1] == 0x25 {
				displacement := int32(binary.LittleEndian.Uint32(code[n+2:]))
				return addr + uint64(n+6) + uint64(int64(displacement)), size
			}
		}
	case elf.EM_AARCH64:
		return armSlot(code, addr)
	}
	return 0, 0
}

// armSlot decodes [bti c;] adrp x16, page; ldr x17, [x16, #offset]; add x16, x16, #offset; br x17 [; nop].
func armSlot(code []byte, addr uint64) (slot uint64, length int) {
	word := func(n int) uint32 {
		if 4*n+4 > len(code) {
			return 0
		}
		return binary.LittleEndian.Uint32(code[4*n:])
	}
	const btiC, brX17, nop = 0xd503245f, 0xd61f0220, 0xd503201f
	first := 0
	if word(0) == btiC {
		first = 1
	}
	adrp, ldr := word(first), word(first+1)
	if adrp&0x9f00001f != 0x90000010 || ldr&0xffc003ff != 0xf9400211 {
		return 0, 0
	}
	pages := int64(int32(adrp<<8)>>13)<<2 | int64(adrp>>29&3) // bits 23 to 5, signed, and 30 to 29
	slot = (addr+uint64(4*first))&^0xfff + uint64(pages<<12) + uint64(ldr>>10&0xfff)*8
	length = first + 2
	for length < 8 && word(length) != brX17 {
		length++
	}
	for length++; length < 6 && word(length) == nop; {
		length++
	}
	return slot, 4 * length
}

// slots returns the indexes of the functions whose addresses the dynamic linker writes to the global offset table, by the address of the
// slot. symbols is the number of entries in .dynsym.
func (i *image) slots(symbols int) map[uint64]uint32 {
	slots := make(map[uint64]uint32)
	i.relocations(func(at, info, _ uint64) {
		if n := info >> 32; n > 0 && n < uint64(symbols) && fillsSlot(i.elf.Machine, uint32(info)) {
			slots[at] = uint32(n)
		}
	})
	return slots
}

// fillsSlot reports whether a relocation sets a slot to the address of a function.
func fillsSlot(machine elf.Machine, kind uint32) bool {
	switch machine {
	case elf.EM_X86_64:
		return elf.R_X86_64(kind) == elf.R_X86_64_JMP_SLOT || elf.R_X86_64(kind) == elf.R_X86_64_GLOB_DAT
	case elf.EM_AARCH64:
		return elf.R_AARCH64(kind) == elf.R_AARCH64_JUMP_SLOT || elf.R_AARCH64(kind) == elf.R_AARCH64_GLOB_DAT
	}
	return false
}
