package kmod

import (
	"debug/elf"
	"encoding/binary"
	"slices"
)

const (
	machine  = elf.EM_X86_64
	absolute = uint32(elf.R_X86_64_64)
)

// code returns the function with the loop, and an empty function.
func (m Module) code() (loop, exit []byte) {
	loop = slices.Concat(
		binary.LittleEndian.AppendUint64([]byte{0x48, 0xb9}, m.Spins), // mov $Spins, %rcx
		[]byte{
			0x48, 0xff, 0xc9, // dec %rcx
			0x75, 0xfb, // jnz to it
			0x31, 0xc0, // xor %eax, %eax
			0xc3, // ret
		})
	return loop, []byte{0xc3}
}
