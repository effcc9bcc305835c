package program

import (
	"debug/elf"
	"encoding/binary"
	"slices"
)

const machine = elf.EM_X86_64

// Numbers of system calls: arch/x86/entry/syscalls/syscall_64.tbl.
const (
	sysNanosleep = 35
	sysExit      = 60
	sysGetPPID   = 110
)

const (
	startInstructions = 2
	exitInstructions  = 3
)

func (p Program) code() []byte {
	body := p.body()
	loop := slices.Concat(body, []byte{0x49, 0xff, 0xcc}) // dec %r12
	const jnz = 2                                         // bytes
	loop = append(loop, 0x75, byte(-(len(loop) + jnz)))   // jnz to the start of the body
	return slices.Concat(
		binary.LittleEndian.AppendUint64([]byte{0x49, 0xbc}, p.Times),      // mov $Times, %r12
		binary.LittleEndian.AppendUint64([]byte{0x49, 0xbd}, pagesAddress), // mov $pages, %r13
		loop,
		load(edi, uint32(p.Exit)), systemCall(sysExit))
}

func (p Program) body() []byte {
	switch p.Body {
	case GetPPID:
		return systemCall(sysGetPPID)
	case Touch:
		return []byte{
			0x41, 0xc6, 0x45, 0x00, 0x01, // movb $1, (%r13)
			0x49, 0x81, 0xc5, 0x00, 0x10, 0x00, 0x00, // add $4096, %r13
		}
	case Sleep:
		return slices.Concat(load(edi, timespecAddress), load(esi, 0), systemCall(sysNanosleep))
	default:
		return nil
	}
}

// Opcodes of mov $imm32 to a register.
const (
	eax = 0xb8
	esi = 0xbe
	edi = 0xbf
)

func load(register byte, value uint32) []byte {
	return binary.LittleEndian.AppendUint32([]byte{register}, value)
}

func systemCall(number uint32) []byte { return append(load(eax, number), 0x0f, 0x05) }
