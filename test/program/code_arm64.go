package program

import (
	"debug/elf"
	"slices"
)

const machine = elf.EM_AARCH64

// Numbers of system calls: include/uapi/asm-generic/unistd.h.
const (
	sysRead      = 63
	sysExit      = 93
	sysNanosleep = 101
	sysYield     = 124
	sysGetSID    = 156
	sysGetPPID   = 173
	sysClone     = 220
	sysWait4     = 260
)

// The number of instructions in each part of the code.
const (
	startInstructions     = 8
	waitInstructions      = 8
	countInstructions     = 1
	startTaskInstructions = 10
	taskInstructions      = 1 // the part of startTaskInstructions that the new task executes, too
	reapInstructions      = 6
	exitInstructions      = 3
)

func (p Program) code() []uint32 {
	loop := append(p.body(), 0xf1000673)                          // subs x19, x19, #1
	loop = append(loop, 0x54000001|uint32(-len(loop)&0x7ffff)<<5) // b.ne to the start of the body
	return slices.Concat(
		load(19, p.Times), load(20, pagesAddress),
		p.wait(), p.start(),
		loop,
		p.reap(), []uint32{move(0, uint16(p.Exit), 0)}, systemCall(sysExit))
}

func (p Program) wait() []uint32 {
	if !p.Wait {
		return nil
	}
	return slices.Concat([]uint32{move(0, 0, 0)}, load(1, inputAddress), []uint32{move(2, 1, 0)}, systemCall(sysRead))
}

// start starts the tasks. They continue after it.
func (p Program) start() []uint32 {
	if p.Tasks == 0 {
		return nil
	}
	task := slices.Concat(load(0, uint64(p.cloneFlags())), []uint32{move(1, 0, 0)}, systemCall(sysClone), []uint32{
		0xb4000060, // cbz x0 past the loop
		0xf10006b5, // subs x21, x21, #1
	})
	task = append(task, 0x54000001|uint32(-len(task)&0x7ffff)<<5) // b.ne to the next one
	return slices.Concat([]uint32{move(21, p.Tasks, 0)}, task)
}

// reap waits for children until there are no more. The fourth argument's register is zero from the start.
func (p Program) reap() []uint32 {
	if p.Tasks == 0 {
		return nil
	}
	const minusOne = 0x92800000 // movn x0, #0
	wait := slices.Concat([]uint32{minusOne, move(1, 0, 0), move(2, 0, 0)}, systemCall(sysWait4))
	return append(wait, 0xb6f80000|uint32(-len(wait)&0x3fff)<<5) // tbz x0, #63 to the next one
}

func (p Program) body() []uint32 {
	switch p.Body {
	case GetPPID:
		return systemCall(sysGetPPID)
	case GetSID:
		return systemCall(sysGetSID)
	case Yield:
		return systemCall(sysYield)
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

// move encodes movz, which sets bits 16*part and up of the register to value, and all others to zero.
func move(register uint32, value uint16, part uint32) uint32 {
	return 0xd2800000 | part<<21 | uint32(value)<<5 | register
}

// load encodes movz and three movk, which leave the other bits unchanged.
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
