package object

import (
	"bytes"
	"debug/elf"
	"sort"
	"strings"
)

// Bounds on the code of a module: the kernel keeps modules in less memory than that, and linkers make a few sections of code.
const (
	maxModuleCode     = 1 << 30 // bytes
	maxModuleSections = 4096
)

// codeSection is a section of a module's code and where the kernel puts it.
type codeSection struct {
	*elf.Section
	start uint64 // bytes behind the start of the module's code
}

// moduleCode returns the sections of a relocatable file's code, in the order in which the kernel puts them into memory one behind the other:
// layout_sections in kernel/module/main.c (before Linux 5.19, kernel/module.c). The code that runs once, when the module is loaded, is elsewhere.
// Sections behind one of an unknown size are left out.
func (i *image) moduleCode() []codeSection {
	if i.elf.Machine != elf.EM_X86_64 && i.elf.Machine != elf.EM_AARCH64 {
		return nil // others have more in front: a GOT on s390
	}
	var code []codeSection
	exit, end := i.keepsExit(), uint64(0)
	for _, s := range i.elf.Sections {
		if i.elf.Machine == elf.EM_AARCH64 && (s.Name == ".plt" || s.Name == ".text.ftrace_trampoline") {
			return code // the kernel gives it a size (module_frob_arch_sections in arch/arm64/kernel/module-plts.c)
		}
		const executable = elf.SHF_ALLOC | elf.SHF_EXECINSTR
		if s.Flags&executable != executable || strings.HasPrefix(s.Name, ".init") || strings.HasPrefix(s.Name, ".exit") && !exit {
			continue
		}
		align := max(s.Addralign, 1)
		if align&(align-1) != 0 || align > maxModuleCode || s.FileSize > maxModuleCode || len(code) == maxModuleSections {
			return code
		}
		start := (end + align - 1) &^ (align - 1)
		if end = start + s.FileSize; end > maxModuleCode {
			return code
		}
		if s.FileSize > 0 {
			code = append(code, codeSection{s, start})
		}
	}
	return code
}

// keepsExit reports whether the kernel that the module is made for keeps the code that unloads it (CONFIG_MODULE_UNLOAD). A module that does not say
// what it is made for is treated as one that does.
func (i *image) keepsExit() bool {
	s := i.section(".modinfo")
	if s == nil {
		return true
	}
	for entry := range bytes.SplitSeq(i.slice(s.Offset, s.FileSize), []byte{0}) {
		if made, is := bytes.CutPrefix(entry, []byte("vermagic=")); is {
			return bytes.Contains(made, []byte(" mod_unload "))
		}
	}
	return true
}

// moduleAddress returns the address of what the kernel puts at an offset from the start of a module's code.
func (i *image) moduleAddress(offset uint64) (uint64, bool) {
	n := sort.Search(len(i.code), func(n int) bool { return i.code[n].start > offset })
	if n == 0 {
		return 0, false
	}
	s := i.code[n-1]
	if s.Type == elf.SHT_NOBITS || offset-s.start >= s.FileSize { // debugging information has no code
		return 0, false
	}
	return s.Addr + (offset - s.start), true
}

// crosses reports whether a symbol that starts at start comes from a section before the section of a module's code that addr is in: it does if
// its size is not known.
func (i *image) crosses(start, addr uint64) bool {
	for _, s := range i.code {
		if s.Type != elf.SHT_NOBITS && addr-s.Addr < s.FileSize {
			return start < s.Addr
		}
	}
	return false
}
