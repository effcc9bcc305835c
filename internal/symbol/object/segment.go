package object

import (
	"debug/elf"
	"fmt"
)

// Address converts an offset in the file to an address. It returns false if nothing is loaded from there. For an address in a mapping of a
// process, pass the address minus the start of the mapping plus its page offset. For a relocatable file, that is a kernel module, the
// offset is relative to the start of the module's code in memory; Address returns false for code that the kernel keeps only while it loads
// the module, and where the kernel's layout is unknown.
func (f *File) Address(offset uint64) (uint64, bool) {
	if f.image.elf.Type == elf.ET_REL {
		return f.image.code.address(offset)
	}
	// Mappings consist of whole pages, so they extend beyond the segment at both ends.
	const page = 64 << 10
	var near, bss *elf.Prog
	for _, p := range f.image.segments {
		if offset >= p.Off && offset-p.Off < p.Filesz {
			return p.Vaddr + (offset - p.Off), true
		}
		if offset >= p.Off && offset-p.Off < p.Memsz { // variables without contents in the file, in the last page of the mapping
			bss = p
		}
		if offset >= p.Off&^(page-1) && offset < p.Off+p.Filesz+page && (near == nil || p.Flags&elf.PF_X != 0) {
			near = p
		}
	}
	if bss != nil {
		near = bss
	}
	if near == nil {
		return 0, false
	}
	return near.Vaddr + (offset - near.Off), true
}

// Mapping is an executable mapping in the file's addresses.
type Mapping struct {
	Start     uint64 // of the mapping; before any code if the first page is shared with another segment
	Low, High uint64 // of the code in the mapping
}

// Executable returns the executable mapping of length bytes from an offset in the file, and false if no code is there. Address
// of the same offset may be in another segment, which ends in the same page.
func (f *File) Executable(offset, length uint64) (m Mapping, ok bool) {
	for _, p := range f.image.segments {
		if p.Flags&elf.PF_X != 0 && p.Off < offset+length && offset < p.Off+p.Filesz {
			start := p.Vaddr + offset - p.Off
			return Mapping{start, max(p.Vaddr, start), min(p.Vaddr+p.Filesz, start+length)}, true
		}
	}
	return Mapping{}, false
}

// Needs returns the program interpreter that the file names, or "", and the names of the shared libraries that it needs.
func (f *File) Needs() (interpreter string, libraries []string) {
	_ = guard(func() (err error) { // what cannot be read is skipped
		for _, p := range f.image.elf.Progs {
			if p.Type == elf.PT_INTERP && p.Filesz > 0 && p.Filesz <= 4096 { // PATH_MAX
				interpreter = string(f.image.slice(p.Off, p.Filesz-1))
			}
		}
		libraries, err = f.image.elf.ImportedLibraries()
		return err
	})
	return interpreter, libraries
}

// Code returns the bytes from start up to end. They must be in one segment.
func (f *File) Code(start, end uint64) ([]byte, error) {
	var code []byte
	err := guard(func() error {
		offset, ok := f.image.offset(start)
		if !ok || end < start {
			return fmt.Errorf("nothing is loaded at %#x", start)
		}
		found := f.image.slice(offset, end-start)
		if uint64(len(found)) < end-start {
			return fmt.Errorf("the file ends before %#x", end)
		}
		code = append(code, found...)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the code from %#x to %#x of %s: %w", start, end, f.path, err)
	}
	return code, nil
}

// offset returns the offset in the file of an address.
func (i *image) offset(addr uint64) (uint64, bool) {
	if i.elf.Type == elf.ET_REL {
		return addr, true
	}
	for _, p := range i.segments {
		if addr >= p.Vaddr && addr-p.Vaddr < p.Filesz {
			return p.Off + (addr - p.Vaddr), true
		}
	}
	return 0, false
}

// at returns the file's contents at an address.
func (i *image) at(addr, size uint64) []byte {
	offset, ok := i.offset(addr)
	if !ok {
		return nil
	}
	return i.slice(offset, size)
}
