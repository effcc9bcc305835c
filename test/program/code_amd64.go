package program

import (
	"debug/elf"
	"encoding/binary"
	"math"
	"slices"
)

const machine = elf.EM_X86_64

// Numbers of system calls: arch/x86/entry/syscalls/syscall_64.tbl.
const (
	sysRead      = 0
	sysYield     = 24
	sysNanosleep = 35
	sysClone     = 56
	sysExit      = 60
	sysWait4     = 61
	sysGetPPID   = 110
	sysGetSID    = 124
)

// The number of instructions in each part of the code.
const (
	startInstructions     = 2
	waitInstructions      = 5
	countInstructions     = 1
	startTaskInstructions = 8
	taskInstructions      = 2 // the part of startTaskInstructions that the new task executes, too
	reapInstructions      = 7
	exitInstructions      = 3
)

func (p Program) code() []byte {
	body := p.body()
	loop := slices.Concat(body, []byte{0x49, 0xff, 0xcc}) // dec %r12
	const jnz = 2                                         // bytes
	loop = append(loop, 0x75, byte(-(len(loop) + jnz)))   // jnz to the start of the body
	return slices.Concat(
		binary.LittleEndian.AppendUint64([]byte{0x49, 0xbc}, p.Times),      // mov $Times, %r12
		binary.LittleEndian.AppendUint64([]byte{0x49, 0xbd}, pagesAddress), // mov $pages, %r13
		p.wait(), p.start(),
		loop,
		p.reap(), load(edi, uint32(p.Exit)), systemCall(sysExit))
}

func (p Program) wait() []byte {
	if !p.Wait {
		return nil
	}
	return slices.Concat(load(edi, 0), load(esi, inputAddress), load(edx, 1), systemCall(sysRead))
}

// start starts the tasks. They continue after it.
func (p Program) start() []byte {
	if p.Tasks == 0 {
		return nil
	}
	task := slices.Concat(load(edi, p.cloneFlags()), load(esi, 0), systemCall(sysClone), []byte{
		0x85, 0xc0, // test %eax, %eax
		0x74, 5, // jz past the loop
		0x49, 0xff, 0xce, // dec %r14
	})
	const jnz = 2                                       // bytes
	task = append(task, 0x75, byte(-(len(task) + jnz))) // jnz to the next one
	count := load(r14d, uint32(p.Tasks))                // after the prefix for r8 to r15
	return slices.Concat([]byte{0x41}, count, task)
}

// reap waits for children until there are no more. The fourth argument's register is zero from the start.
func (p Program) reap() []byte {
	if p.Tasks == 0 {
		return nil
	}
	wait := slices.Concat(load(edi, math.MaxUint32), load(esi, 0), load(edx, 0), systemCall(sysWait4), []byte{0x85, 0xc0}) // test %eax, %eax
	const jns = 2                                                                                                          // bytes
	return append(wait, 0x79, byte(-(len(wait) + jns)))                                                                    // jns to the next one
}

func (p Program) body() []byte {
	switch p.Body {
	case GetPPID:
		return systemCall(sysGetPPID)
	case GetSID:
		return systemCall(sysGetSID)
	case Yield:
		return systemCall(sysYield)
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
	eax  = 0xb8
	edx  = 0xba
	esi  = 0xbe
	edi  = 0xbf
	r14d = 0xbe
)

func load(register byte, value uint32) []byte {
	return binary.LittleEndian.AppendUint32([]byte{register}, value)
}

func systemCall(number uint32) []byte { return append(load(eax, number), 0x0f, 0x05) }
