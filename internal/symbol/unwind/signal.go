package unwind

import "bytes"

// restorers is the code that signal handlers return to: it loads the number of rt_sigreturn(2), and then calls it. call is the offset of
// the call.
var restorers = [...]struct {
	code []byte
	call uint64
}{
	AMD64: {[]byte{0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05}, 7},    // mov $15,%rax; syscall
	ARM64: {[]byte{0x68, 0x11, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4}, 4}, // mov x8, #139; svc #0
}

// isRestorer reports whether an address without tables is in a restorer. exact is that of Module.row.
func (m *Module) isRestorer(address uint64, exact bool) bool {
	if !exact {
		address++ // the address is one less than a return address, which is where a restorer starts
	}
	begins := func(at uint64) bool {
		return m.arch.IsRestorer(func(size uint64) []byte {
			b, _ := m.code(at, at+size) // nil if there is none
			return b
		})
	}
	return begins(address) || exact && begins(address-restorers[m.arch].call)
}

// IsRestorer reports whether code is a restorer, the code that signal handlers return to. The function code returns the first size bytes,
// or fewer if there are not as many.
func (a Arch) IsRestorer(code func(size uint64) []byte) bool {
	restorer := restorers[a].code
	return bytes.Equal(code(uint64(len(restorer))), restorer)
}

// These are offsets in struct rt_sigframe, which the stack pointer points to in the restorer.
const (
	// x86-64 (arch/x86/include/asm/sigframe.h): the return address is already popped; uc_mcontext is at offset 40 of the ucontext.
	amd64SignalRegisters = 40
	// arm64 (arch/arm64/kernel/signal.c): 128 bytes of siginfo; uc_mcontext at offset 176 of the ucontext; it starts with fault_address.
	arm64SignalRegisters = 128 + 176 + 8
)

// amd64Signal holds the DWARF numbers of the registers in struct sigcontext of x86-64 (arch/x86/include/uapi/asm/sigcontext.h).
var amd64Signal = [...]uint64{8, 9, 10, 11, 12, 13, 14, 15, 5, 4, amd64BP, 3, 1, 0, 2, amd64SP, amd64PC}

// fromSignal restores the registers that the kernel saved on the stack before it called a signal handler.
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
