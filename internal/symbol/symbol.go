// Package symbol holds the types that describe code addresses, Symbol and Frame, and Table, which finds the symbol of an address. Each
// subpackage reads one source of names: files, the kernel, BPF programs, JIT compilers.
package symbol

// Symbol is a name for the addresses from Start up to, but not including, End.
type Symbol struct {
	Name    string // as its source has it; Demangle makes it readable
	Start   uint64
	End     uint64 // equal to Start if the source gives no size; a Table ends such a symbol where the next one starts
	Binding Binding
}

// Size returns the size of s in bytes.
func (s *Symbol) Size() uint64 {
	return s.End - s.Start
}

// Binding is the visibility of a symbol. The values are those of the ELF specification (STB_LOCAL, STB_GLOBAL, STB_WEAK).
type Binding uint8

const (
	Local  Binding = 0
	Global Binding = 1
	Weak   Binding = 2
)

// Frame is one function at an address. Where the compiler inlined functions, an address has several frames: the innermost comes first, and
// all but the last are inlined.
type Frame struct {
	Function  string // demangled; empty if unknown
	Start     uint64 // the start of the symbol that contains the code, in the address space of the lookup; 0 if unknown
	Module    string // the file that the code is from, or a name such as [kernel.kallsyms]
	File      string // the source file, absolute if the source of lines has it so; empty if unknown
	Line      int    // in File; for the caller of an inlined function, the line of the call; 0 if unknown
	Column    int    // 0 if unknown
	StartLine int    // the line in File where the function begins, for profile-guided optimization; 0 if unknown
	Inlined   bool
}
