package kmod

import (
	"debug/elf"
	"encoding/binary"
)

const (
	machine  = elf.EM_AARCH64
	absolute = uint32(elf.R_AARCH64_ABS64)
)

// code returns the function with the loop, and an empty function.
func (m Module) code() (loop, exit []byte) {
	const movz, movk, x1, ret = 0xd2800000, 0xf2800000, 1, 0xd65f03c0
	words := []uint32{movz | uint32(m.Spins&0xffff)<<5 | x1}
	for half := uint32(1); half < 4; half++ {
		words = append(words, movk|half<<21|uint32(m.Spins>>(16*half)&0xffff)<<5|x1)
	}
	words = append(words,
		0xf1000421, // subs x1, x1, #1
		0x54ffffe1, // b.ne to it
		0x52800000, // mov w0, #0
		ret)
	for _, w := range words {
		loop = binary.LittleEndian.AppendUint32(loop, w)
	}
	return loop, binary.LittleEndian.AppendUint32(nil, ret)
}
