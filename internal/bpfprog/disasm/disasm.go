// Package disasm disassembles the code that the kernel's BPF JIT compilers emit for x86-64 and arm64, in the syntax of the GNU tools, and the
// instructions of the BPF virtual machine, in the notation of the kernel's verifier.
package disasm

import "fmt"

// Instruction is a machine instruction.
type Instruction struct {
	Address uint64
	Code    []byte
	Text    string // "(bad)" if the instruction is unknown
	// Transfers is set if the next instruction in memory is never the next to run: for jumps without a condition, calls, returns, system
	// calls and interrupts.
	Transfers bool
	Target    uint64 // address that it calls or jumps to; 0 if there is none, or if it is in a register
}

// Func disassembles the code of a function at an address.
type Func func(code []byte, address uint64) []Instruction

// For returns the disassembler for an architecture, which has the name that Go gives it.
func For(arch string) (Func, error) {
	switch arch {
	case "amd64":
		return func(code []byte, address uint64) []Instruction { return x86(code, address, att) }, nil
	case "arm64":
		return arm64, nil
	}
	return nil, fmt.Errorf("there is no disassembler for %s", arch)
}

// Bytes returns the instruction's bytes in hexadecimal, in the order of memory.
func (i Instruction) Bytes() string { return fmt.Sprintf("% x", i.Code) }
