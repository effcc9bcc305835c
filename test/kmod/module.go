// Package kmod makes kernel modules without the kernel's build system. A module is an ELF file with a function that runs a loop when the
// module is loaded. The function is in a separate section after .text. The kernel must allow modules that were not built for it
// (CONFIG_MODULE_FORCE_LOAD), as Debian's kernels do.
package kmod

import (
	"bytes"
	"crypto/sha1"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/test/require"
)

// Module is a kernel module.
type Module struct {
	Name  string
	Spins uint64 // rounds of the loop, of two instructions each
}

// Function returns the name of the function with the loop.
func (m Module) Function() string { return m.Name + "_spin" }

// BuildID returns the module's build ID.
func (m Module) BuildID() []byte {
	id := sha1.Sum(fmt.Append(nil, m))
	return id[:]
}

// Require skips the test unless this machine can load modules: a guest on amd64.
func Require(t testing.TB) {
	t.Helper()
	require.Guest(t)
	if machine == elf.EM_AARCH64 {
		t.Skip("the kernel refuses these modules on arm64 (ENOEXEC), for a reason that is not known yet")
	}
}

// Load loads the module and returns when its loop has ended. If the module is still loaded when the test ends, it is unloaded.
func (m Module) Load(t testing.TB) {
	t.Helper()
	if err := unix.InitModule(m.file(t), ""); err != nil {
		const readAll = 3 // SYSLOG_ACTION_READ_ALL of syslog(2)
		log := make([]byte, 1<<20)
		n, _ := unix.Klogctl(readAll, log) // on an error the message has less
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

// Install writes the files of modules and their list to the directory of the running kernel's modules. It replaces those of the previous
// call. They are removed when the test ends. Only for guests.
func Install(t testing.TB, modules ...Module) {
	t.Helper()
	require.Guest(t) // another machine has modules of its own there
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		t.Fatal(err)
	}
	dir := "/lib/modules/" + unix.ByteSliceToString(name.Release[:])
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	var list []byte
	for _, m := range modules {
		list = fmt.Appendf(list, "%s.ko:\n", m.Name)
		if err := os.WriteFile(filepath.Join(dir, m.Name+".ko"), m.file(t), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "modules.dep"), list, 0o644); err != nil {
		t.Fatal(err)
	}
}

// Sections of the file, in order.
const (
	null = iota
	text
	spin
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

var sectionNames = [nrSections]string{"", ".text", ".text.spin", ".plt", ".init.plt", ".text.ftrace_trampoline", ".modinfo",
	".gnu.linkonce.this_module", ".rela.gnu.linkonce.this_module", ".note.gnu.build-id", ".symtab", ".strtab"}

// SpinOffset is the offset of the function from the start of the module's code in memory, in bytes.
const SpinOffset = 32

// structModule has the size and the offsets of some members of the kernel's struct module, in bytes.
type structModule struct {
	size             uint32
	name, init, exit uint64
}

// file returns the content of the module's file, for the running kernel's struct module.
func (m Module) file(t testing.TB) []byte {
	t.Helper()
	layout, err := readStructModule()
	if err != nil {
		t.Fatal(err)
	}
	return m.image(t, layout)
}

// Unloadable returns the content of a file that readers cannot distinguish from the module's. No kernel can load it.
func (m Module) Unloadable(t testing.TB) []byte {
	t.Helper()
	return m.image(t, structModule{size: 64})
}

func readStructModule() (l structModule, err error) {
	kernel, err := btf.LoadKernelSpec()
	if err != nil {
		return l, err
	}
	var module *btf.Struct
	if err := kernel.TypeByName("module", &module); err != nil {
		return l, err
	}
	at := make(map[string]uint64)
	for _, member := range module.Members {
		at[member.Name] = uint64(member.Offset.Bytes())
	}
	if at["init"] == 0 || at["exit"] == 0 {
		return l, errors.New("modules cannot be unloaded from this kernel (CONFIG_MODULE_UNLOAD)")
	}
	return structModule{module.Size, at["name"], at["init"], at["exit"]}, nil
}

func (m Module) image(t testing.TB, l structModule) []byte {
	t.Helper()
	this := make([]byte, l.size)
	copy(this[l.name:], m.Name)

	le := binary.LittleEndian
	strings := []byte{0}
	name := func(s string) uint32 {
		strings = append(append(strings, s...), 0)
		return uint32(len(strings) - len(s) - 1)
	}
	loop, exit := m.code()
	function := uint8(elf.STT_FUNC)
	table := []elf.Sym64{{},
		{Name: name(m.Function()), Info: function, Shndx: spin, Size: uint64(len(loop))},
		{Name: name(m.Name + "_exit"), Info: function, Shndx: text, Size: uint64(len(exit))}}
	relocate := []elf.Rela64{
		{Off: l.init, Info: elf.R_INFO(1, absolute)},
		{Off: l.exit, Info: elf.R_INFO(2, absolute)}}
	id := m.BuildID()
	const gnuBuildID = 3
	notes := append(le.AppendUint32(le.AppendUint32(le.AppendUint32(nil, 4), uint32(len(id))), gnuBuildID), "GNU\x00"...)

	forKernel := elf.Section64{Type: uint32(elf.SHT_NOBITS), Flags: uint64(elf.SHF_ALLOC | elf.SHF_EXECINSTR), Addralign: 1}
	sections := [nrSections]elf.Section64{
		text:        {Type: uint32(elf.SHT_PROGBITS), Flags: uint64(elf.SHF_ALLOC | elf.SHF_EXECINSTR), Addralign: 16},
		spin:        {Type: uint32(elf.SHT_PROGBITS), Flags: uint64(elf.SHF_ALLOC | elf.SHF_EXECINSTR), Addralign: SpinOffset},
		plt:         forKernel, // arm64 requires these three
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
	contents := [nrSections]any{text: exit, spin: loop, modinfo: []byte("license=GPL\x00name=" + m.Name + "\x00"), thisModule: this, relocations: relocate,
		note: append(notes, id...), symbols: table, names: strings}
	const headerSize = 64
	var body []byte
	var err error
	for i, content := range contents {
		if content == nil {
			continue
		}
		body = append(body, make([]byte, -len(body)&63)...)
		sections[i].Off = uint64(headerSize + len(body))
		if body, err = binary.Append(body, le, content); err != nil {
			t.Fatal(err)
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
			t.Fatal(err)
		}
	}
	return file.Bytes()
}
