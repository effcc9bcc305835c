package object

import (
	"debug/elf"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestModuleCode lays out the sections of modules in the same way as the kernel, as far as that is known.
func TestModuleCode(t *testing.T) {
	const code, huge = elf.SHF_ALLOC | elf.SHF_EXECINSTR, 1 << 63
	section := func(name string, flags elf.SectionFlag, size, align uint64) elf.SectionHeader {
		return elf.SectionHeader{Name: name, Type: elf.SHT_PROGBITS, Flags: flags, FileSize: size, Size: size, Addralign: align}
	}
	type placed struct {
		Name  string
		Start uint64
	}
	text, cold := section(".text", code, 0x21, 16), section(".text.unlikely", code, 8, 0)
	for name, tt := range map[string]struct {
		machine  elf.Machine
		sections []elf.SectionHeader
		want     []placed
	}{
		"none":                    {elf.EM_X86_64, nil, nil},
		"one behind the other":    {elf.EM_X86_64, []elf.SectionHeader{text, cold, section(".x", code, 4, 64)}, []placed{{".text", 0}, {".text.unlikely", 0x21}, {".x", 64}}},
		"not only code":           {elf.EM_X86_64, []elf.SectionHeader{section(".data", elf.SHF_ALLOC, 99, 1), text, section(".debug", 0, 99, 1), cold}, []placed{{".text", 0}, {".text.unlikely", 0x21}}},
		"init":                    {elf.EM_X86_64, []elf.SectionHeader{section(".init.text", code, 99, 1), text}, []placed{{".text", 0}}},
		"exit":                    {elf.EM_X86_64, []elf.SectionHeader{section(".exit.text", code, 3, 1), cold}, []placed{{".exit.text", 0}, {".text.unlikely", 3}}},
		"empty":                   {elf.EM_X86_64, []elf.SectionHeader{section(".none", code, 0, 64), text}, []placed{{".text", 0}}},
		"arm64":                   {elf.EM_AARCH64, []elf.SectionHeader{text, section(".plt", code, 1, 1), cold}, []placed{{".text", 0}}},
		"another machine":         {elf.EM_S390, []elf.SectionHeader{text}, nil},
		"alignment of 3":          {elf.EM_X86_64, []elf.SectionHeader{text, section(".x", code, 1, 3), cold}, []placed{{".text", 0}}},
		"huge alignment":          {elf.EM_X86_64, []elf.SectionHeader{text, section(".x", code, 1, huge), cold}, []placed{{".text", 0}}},
		"huge section":            {elf.EM_X86_64, []elf.SectionHeader{text, section(".x", code, huge, 1), cold}, []placed{{".text", 0}}},
		"sections that wrap":      {elf.EM_X86_64, []elf.SectionHeader{text, section(".x", code, ^uint64(0), 1), cold}, []placed{{".text", 0}}},
		"more than there is room": {elf.EM_X86_64, []elf.SectionHeader{text, section(".x", code, maxModuleCode, 1)}, []placed{{".text", 0}}},
	} {
		i := &image{elf: &elf.File{FileHeader: elf.FileHeader{Type: elf.ET_REL, Machine: tt.machine}}}
		for _, s := range tt.sections {
			i.elf.Sections = append(i.elf.Sections, &elf.Section{SectionHeader: s})
		}
		var got []placed
		for _, s := range i.moduleLayout() {
			got = append(got, placed{s.Name, s.start})
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}

// TestModuleAddress converts offsets from the start of a module's code in memory to addresses of its file, and finds only symbols of the
// same section there.
func TestModuleAddress(t *testing.T) {
	const code = elf.SHF_ALLOC | elf.SHF_EXECINSTR
	header := func(addr, size uint64) *elf.Section {
		return &elf.Section{SectionHeader: elf.SectionHeader{Type: elf.SHT_PROGBITS, Flags: code, Addr: addr, FileSize: size, Size: size, Addralign: 16}}
	}
	i := &image{elf: &elf.File{FileHeader: elf.FileHeader{Type: elf.ET_REL, Machine: elf.EM_X86_64}, Sections: []*elf.Section{header(0x40, 0x18), header(0x1000, 0x10)}}}
	i.code = i.moduleLayout()
	for offset, want := range map[uint64]uint64{0: 0x40, 0x17: 0x57, 0x18: 0, 0x1f: 0, 0x20: 0x1000, 0x2f: 0x100f, 0x30: 0, ^uint64(0): 0} {
		if got, ok := i.code.address(offset); got != want || ok != (want != 0) {
			t.Errorf("%#x is at %#x, %v; want %#x", offset, got, ok, want)
		}
	}
	if !i.code.crosses(0x40, 0x1004) || i.code.crosses(0x1000, 0x1004) || i.code.crosses(0x40, 0x57) {
		t.Error("a symbol of one section reaches into another")
	}
}
