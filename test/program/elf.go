package program

import (
	"debug/elf"
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// Memory addresses. The whole file is mapped, including its headers.
const (
	fileAddress     = 0x400000
	timespecAddress = fileAddress + headerSize
	codeAddress     = timespecAddress + timespecSize
	pagesAddress    = 0x800000
	inputAddress    = pagesAddress + MaxPages*pageSize

	headerSize   = 64 + 2*56
	timespecSize = 16
	pageSize     = 4096
)

// elf returns an executable with two segments (elf(5)): one for the file, and one of zero pages, which are the pages of Touch and one for
// input.
func (p Program) elf() []byte {
	code := p.code()
	size := uint64(headerSize + timespecSize + len(code))
	parts := []any{
		elf.Header64{
			Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
			Type:  uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT),
			Entry: codeAddress, Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 2,
		},
		elf.Prog64{
			Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X),
			Vaddr: fileAddress, Filesz: size, Memsz: size, Align: pageSize,
		},
		elf.Prog64{
			Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_W),
			Vaddr: pagesAddress, Memsz: (MaxPages + 1) * pageSize, Align: pageSize,
		},
		[2]uint64{0, 1_000_000}, // struct timespec: a millisecond
		code,
	}
	var file []byte
	for _, part := range parts {
		var err error
		if file, err = binary.Append(file, binary.LittleEndian, part); err != nil {
			panic(err) // cannot fail: all types above have a fixed size
		}
	}
	return file
}

// cloneFlags returns the clone(2) flags of the tasks (include/uapi/linux/sched.h). Threads also share the stack, which the program does not
// use.
func (p Program) cloneFlags() uint32 {
	const sigchld = 17
	const threads = unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND | unix.CLONE_THREAD | unix.CLONE_SYSVSEM
	if p.Threads {
		return threads
	}
	return sigchld
}
