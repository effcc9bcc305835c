// Package disasm disassembles what the kernel's BPF JIT compilers for x86-64 and arm64 emit, in the syntax of the GNU tools.
package disasm

import "fmt"

// Instruction is an instruction of a machine.
type Instruction struct {
	Address uint64
	Code    []byte
	Text    string // "(bad)" if it is not known
	Target  uint64 // address that it calls or jumps to; 0 if it does not, or if that is in a register
}

// Func disassembles the code of a function that is at an address.
type Func func(code []byte, address uint64) []Instruction

// For returns the disassembler for an architecture, in Go's names.
func For(arch string) (Func, error) {
	switch arch {
	case "amd64":
		return x86, nil
	case "arm64":
		return arm64, nil
	}
	return nil, fmt.Errorf("there is no disassembler for %s", arch)
}

// Bytes are the instruction's bytes as they lie in memory, in hexadecimal.
func (i Instruction) Bytes() string { return fmt.Sprintf("% x", i.Code) }
