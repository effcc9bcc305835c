// Package kmod makes modules of the kernel without the kernel's build: an ELF file whose one function runs a loop when the module is loaded. The
// kernel must allow modules that were not built for it (CONFIG_MODULE_FORCE_LOAD), as Debian's do.
package kmod

import (
	"bytes"
	"crypto/sha1"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/test/require"
)

// Module is a module.
type Module struct {
	Name  string
	Spins uint64 // rounds of the loop, of two instructions each
}

// Function returns the name of the function that has the loop.
func (m Module) Function() string { return m.Name + "_spin" }

// BuildID returns the module's build ID.
func (m Module) BuildID() []byte {
	id := sha1.Sum(fmt.Append(nil, m))
	return id[:]
}

// Require is for tests that load modules, only in a guest.
func Require(t testing.TB) {
	t.Helper()
	require.Guest(t)
	if machine == elf.EM_AARCH64 {
		t.Skip("the kernel refuses these modules on arm64 (ENOEXEC), for a reason that is not known yet")
	}
}

// Load loads the module, and returns when its loop has ended. The test unloads it at its end, if it is still loaded.
func (m Module) Load(t testing.TB) {
	t.Helper()
	image, err := m.image()
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.InitModule(image, ""); err != nil {
		const readAll = 3 // SYSLOG_ACTION_READ_ALL of syslog(2)
		log := make([]byte, 1<<20)
		n, _ := unix.Klogctl(readAll, log) // what is missing of it is missing in the error
		t.Fatalf("load the module %s: %v. The kernel's messages end with: %s", m.Name, err, log[max(0, n-500):max(0, n)])
	}
	t.Cleanup(func() { _ = unix.DeleteModule(m.Name, unix.O_NONBLOCK) })
}

// Unload unloads the module.
func (m Module) Unload(t testing.TB) {
	t.Helper()
	if err := unix.DeleteModule(m.Name, unix.O_NONBLOCK); err != nil {
		t.Fatalf("unload the module %s: %v", m.Name, err)
	}
}

// Sections of the file, in their order.
const (
	null = iota
	text
	plt
	initPLT
	ftrace
	modinfo
	thisModule
	relocations
	note
	symbols
	names
	nrSections
)

var sectionNames = [nrSections]string{"", ".text", ".plt", ".init.plt", ".text.ftrace_trampoline", ".modinfo",
	".gnu.linkonce.this_module", ".rela.gnu.linkonce.this_module", ".note.gnu.build-id", ".symtab", ".strtab"}

// image returns the file, which has to fit the running kernel's struct module.
func (m Module) image() ([]byte, error) {
	kernel, err := btf.LoadKernelSpec()
	if err != nil {
		return nil, err
	}
	var layout *btf.Struct
	if err := kernel.TypeByName("module", &layout); err != nil {
		return nil, err
	}
	at := make(map[string]uint64)
	for _, member := range layout.Members {
		at[member.Name] = uint64(member.Offset.Bytes())
	}
	if at["init"] == 0 || at["exit"] == 0 {
		return nil, errors.New("modules cannot be unloaded from this kernel (CONFIG_MODULE_UNLOAD)")
	}
	this := make([]byte, layout.Size)
	copy(this[at["name"]:], m.Name)

	le := binary.LittleEndian
	strings := []byte{0}
	name := func(s string) uint32 {
		strings = append(append(strings, s...), 0)
		return uint32(len(strings) - len(s) - 1)
	}
	code, exit := m.code()
	function := uint8(elf.STT_FUNC)
	table := []elf.Sym64{{},
		{Name: name(m.Function()), Info: function, Shndx: text, Size: exit},
		{Name: name(m.Name + "_exit"), Info: function, Shndx: text, Value: exit, Size: uint64(len(code)) - exit}}
	relocate := []elf.Rela64{
		{Off: at["init"], Info: elf.R_INFO(1, absolute)},
		{Off: at["exit"], Info: elf.R_INFO(2, absolute)}}
	id := m.BuildID()
	const gnuBuildID = 3
	notes := append(le.AppendUint32(le.AppendUint32(le.AppendUint32(nil, 4), uint32(len(id))), gnuBuildID), "GNU\x00"...)

	forKernel := elf.Section64{Type: uint32(elf.SHT_NOBITS), Flags: uint64(elf.SHF_ALLOC | elf.SHF_EXECINSTR), Addralign: 1}
	sections := [nrSections]elf.Section64{
		text:        {Type: uint32(elf.SHT_PROGBITS), Flags: uint64(elf.SHF_ALLOC | elf.SHF_EXECINSTR), Addralign: 16},
		plt:         forKernel, // arm64 wants these three
		initPLT:     forKernel,
		ftrace:      forKernel,
		modinfo:     {Type: uint32(elf.SHT_PROGBITS), Flags: uint64(elf.SHF_ALLOC), Addralign: 1},
		thisModule:  {Type: uint32(elf.SHT_PROGBITS), Flags: uint64(elf.SHF_ALLOC | elf.SHF_WRITE), Addralign: 64},
		relocations: {Type: uint32(elf.SHT_RELA), Flags: uint64(elf.SHF_INFO_LINK), Link: symbols, Info: thisModule, Addralign: 8, Entsize: 24},
		note:        {Type: uint32(elf.SHT_NOTE), Flags: uint64(elf.SHF_ALLOC), Addralign: 4},
		symbols:     {Type: uint32(elf.SHT_SYMTAB), Link: names, Info: uint32(len(table)), Addralign: 8, Entsize: 24},
		names:       {Type: uint32(elf.SHT_STRTAB), Addralign: 1},
	}
	for i := range sections {
		sections[i].Name = name(sectionNames[i])
	}
	contents := [nrSections]any{text: code, modinfo: []byte("license=GPL\x00name=" + m.Name + "\x00"), thisModule: this, relocations: relocate,
		note: append(notes, id...), symbols: table, names: strings}
	const headerSize = 64
	var body []byte
	for i, content := range contents {
		if content == nil {
			continue
		}
		body = append(body, make([]byte, -len(body)&63)...)
		sections[i].Off = uint64(headerSize + len(body))
		if body, err = binary.Append(body, le, content); err != nil {
			return nil, err
		}
		sections[i].Size = uint64(headerSize+len(body)) - sections[i].Off
	}
	body = append(body, make([]byte, -len(body)&63)...)
	header := elf.Header64{Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type: uint16(elf.ET_REL), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT), Shoff: uint64(headerSize + len(body)),
		Ehsize: headerSize, Shentsize: 64, Shnum: nrSections, Shstrndx: names}
	var file bytes.Buffer
	for _, part := range []any{header, body, sections} {
		if err := binary.Write(&file, le, part); err != nil {
			return nil, err
		}
	}
	return file.Bytes(), nil
}
