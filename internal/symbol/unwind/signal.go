package unwind

import (
	"bytes"
	"slices"
)

// restorers are what signal handlers return to: it calls rt_sigreturn(2) with its number, in two instructions.
var restorers = [...]struct{ number, call []byte }{
	AMD64: {[]byte{0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0}, []byte{0x0f, 0x05}},    // mov $15,%rax; syscall
	ARM64: {[]byte{0x68, 0x11, 0x80, 0xd2}, []byte{0x01, 0x00, 0x00, 0xd4}}, // mov x8, #139; svc #0
}

// isRestorer looks at code that has no tables.
func (m *Module) isRestorer(address uint64, exact bool) bool {
	if !exact {
		address++ // what was taken for a return address is where it begins
	}
	begins := func(at uint64) bool {
		return m.arch.IsRestorer(func(size uint64) []byte {
			b, _ := m.code(at, at+size) // nil where there is none
			return b
		})
	}
	return begins(address) || exact && begins(address-uint64(len(restorers[m.arch].number)))
}

// IsRestorer reports whether code is what signal handlers return to. It returns size bytes, or fewer or none where there are not as many.
func (a Arch) IsRestorer(code func(size uint64) []byte) bool {
	r := &restorers[a]
	return bytes.Equal(code(uint64(len(r.number)+len(r.call))), slices.Concat(r.number, r.call))
}

// Offsets in struct rt_sigframe, which the stack pointer points at in the restorer.
const (
	// x86-64 (arch/x86/include/asm/sigframe.h): the return address is gone; in the ucontext the machine's context is at 40.
	amd64SignalRegisters = 40
	// arm64 (arch/arm64/kernel/signal.c): siginfo of 128 bytes, the ucontext's machine context at 176, in it first fault_address.
	arm64SignalRegisters = 128 + 176 + 8
)

// amd64Signal are the registers of struct sigcontext of x86-64 (arch/x86/include/uapi/asm/sigcontext.h), in DWARF's numbers.
var amd64Signal = [...]uint64{8, 9, 10, 11, 12, 13, 14, 15, 5, 4, amd64BP, 3, 1, 0, 2, amd64SP, amd64PC}

// fromSignal takes the registers from what the kernel has put onto the stack for the handler's return.
func (w *walk) fromSignal() error {
	sp, known := w.registers.get(w.arch.sp())
	if !known {
		return errRegister
	}
	var interrupted Registers
	first, count := sp+amd64SignalRegisters, uint64(len(amd64Signal))
	if w.arch == ARM64 {
		first, count = sp+arm64SignalRegisters, registerCount // x0 to x30, sp and pc
	}
	for n := range count {
		v, ok := w.memory(first + 8*n)
		if !ok {
			return memoryError(first + 8*n)
		}
		register := n
		if w.arch == AMD64 {
			register = amd64Signal[n]
		}
		interrupted.Set(register, v)
	}
	w.registers = interrupted
	return nil
}
