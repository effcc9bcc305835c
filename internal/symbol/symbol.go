// Package symbol holds the types that its subpackages turn addresses into, and the table that finds the symbol of an
// address. Each subpackage knows one source of names: files, the kernel, BPF programs, JIT compilers.
package symbol

// Symbol is a name for the addresses from Start up to, but not including, End.
type Symbol struct {
	Name    string // as its source has it; Demangle makes the name for a reader
	Start   uint64
	End     uint64 // Start where the source gives no size; a Table ends such a symbol where the next one starts
	Binding Binding
}

// Size is the number of bytes that s stands for.
func (s *Symbol) Size() uint64 {
	return s.End - s.Start
}

// Binding says who sees a symbol. The values are those of the ELF specification (STB_LOCAL and so on).
type Binding uint8

const (
	Local  Binding = 0
	Global Binding = 1
	Weak   Binding = 2
)

// Frame is one function at an address. An address has several of them where the compiler has put functions into
// another one: then the innermost comes first, and all but the last are inlined.
type Frame struct {
	Function  string // for a reader: demangled; empty where no source knows a name
	Start     uint64 // where the symbol starts that the code belongs to, in the address space of the lookup; 0 if unknown
	Module    string // where the code is from: the path of a file, or a name such as [kernel.kallsyms]
	File      string // of the source, absolute where the source of lines has it so; empty if unknown
	Line      int    // in File: for the outer frames of inlined ones, the line of the call; 0 if unknown
	Column    int    // 0 if unknown
	StartLine int    // the line in its file where the function begins, which profile-guided optimization wants; 0 if unknown
	Inlined   bool
}
