package object

import (
	"bytes"
	"debug/elf"
	"sort"
	"strings"
)

// These limit the code of a module: modules take less memory in the kernel, and linkers create only a few sections of code.
const (
	maxModuleCode     = 1 << 30 // bytes
	maxModuleSections = 4096
)

// moduleLayout holds the code sections of a module, in the order of memory.
type moduleLayout []codeSection

// codeSection is a section of a module's code.
type codeSection struct {
	*elf.Section
	start uint64 // offset in the kernel's memory from the start of the module's code, in bytes
}

// moduleLayout returns the code of a relocatable file as the kernel lays it out in memory: layout_sections in kernel/module/main.c (before
// Linux 5.19, kernel/module.c). It leaves out code that runs only while the module is loaded, which is elsewhere, and sections after one of
// unknown size.
func (i *image) moduleLayout() moduleLayout {
	if i.elf.Machine != elf.EM_X86_64 && i.elf.Machine != elf.EM_AARCH64 {
		return nil // other machines have more in front, such as a GOT on s390
	}
	var code moduleLayout
	exit, end := i.keepsExit(), uint64(0)
	for _, s := range i.elf.Sections {
		if i.elf.Machine == elf.EM_AARCH64 && (s.Name == ".plt" || s.Name == ".text.ftrace_trampoline") {
			return code // the kernel changes its size (module_frob_arch_sections in arch/arm64/kernel/module-plts.c)
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

// keepsExit reports whether the module's kernel keeps the code that unloads the module (CONFIG_MODULE_UNLOAD). Without vermagic, keepsExit
// assumes that it does.
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

// address returns the file's address for an offset from the start of the module's code in memory.
func (l moduleLayout) address(offset uint64) (uint64, bool) {
	n := sort.Search(len(l), func(n int) bool { return l[n].start > offset })
	if n == 0 {
		return 0, false
	}
	s := l[n-1]
	if s.Type == elf.SHT_NOBITS || offset-s.start >= s.FileSize { // files of debugging information have no code
		return 0, false
	}
	return s.Addr + (offset - s.start), true
}

// crosses reports whether a symbol from start on begins in a section before the one that contains addr. Symbols of unknown size can extend
// that far.
func (l moduleLayout) crosses(start, addr uint64) bool {
	for _, s := range l {
		if s.Type != elf.SHT_NOBITS && addr-s.Addr < s.FileSize {
			return start < s.Addr
		}
	}
	return false
}
