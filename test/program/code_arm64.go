package program

import (
	"debug/elf"
	"slices"
)

const machine = elf.EM_AARCH64

// Numbers of system calls: include/uapi/asm-generic/unistd.h.
const (
	sysExit      = 93
	sysNanosleep = 101
	sysGetPPID   = 173
)

const (
	startInstructions = 8
	exitInstructions  = 3
)

func (p Program) code() []uint32 {
	loop := append(p.body(), 0xf1000673)                          // subs x19, x19, #1
	loop = append(loop, 0x54000001|uint32(-len(loop)&0x7ffff)<<5) // b.ne to the start of the body
	return slices.Concat(
		load(19, p.Times), load(20, pagesAddress),
		loop,
		[]uint32{move(0, uint16(p.Exit), 0)}, systemCall(sysExit))
}

func (p Program) body() []uint32 {
	switch p.Body {
	case GetPPID:
		return systemCall(sysGetPPID)
	case Touch:
		return []uint32{
			0x39000293, // strb w19, [x20]
			0x91400694, // add x20, x20, #4096
		}
	case Sleep:
		return slices.Concat(load(0, timespecAddress), load(1, 0), systemCall(sysNanosleep))
	default:
		return nil
	}
}

// move is movz: the 16 bits of value at 16*part of the register, zero elsewhere.
func move(register uint32, value uint16, part uint32) uint32 {
	return 0xd2800000 | part<<21 | uint32(value)<<5 | register
}

// load is movz and three movk, which leave the other bits as they are.
func load(register uint32, value uint64) []uint32 {
	const keep = 1 << 29
	code := []uint32{move(register, uint16(value), 0)}
	for part := range uint32(3) {
		code = append(code, keep|move(register, uint16(value>>(16*(part+1))), part+1))
	}
	return code
}

func systemCall(number uint16) []uint32 {
	return []uint32{move(8, number, 0), 0xd4000001} // svc #0
}
