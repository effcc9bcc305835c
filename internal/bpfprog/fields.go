package bpfprog

import (
	"strings"
	"sync"

	"github.com/cilium/ebpf/btf"

	"github.com/bperf/bperf/internal/bpfprog/disasm"
)

// fields finds the fields of structures that instructions access. Instructions have only a distance and a size. A field is known if the
// source line names one that has both, in a structure of the program's BTF. For structures of the kernel, which CO-RE relocates, the
// distance is that of the kernel that runs.
type fields struct {
	program *btf.Spec
	kernel  func() *btf.Spec // nil if it cannot be read

	named map[string][]*btf.Struct    // structures of the program with a member of this name; nil until it is needed
	moved map[*btf.Struct]*btf.Struct // the kernel's structures of the same names; nil for none
}

// extent is where a member is of a structure.
type extent struct {
	offset, size uint32 // bytes
}

// newFields returns the fields of a program with this BTF; nil without.
func newFields(program *btf.Spec) *fields {
	if program == nil {
		return nil
	}
	return &fields{program: program, kernel: sync.OnceValue(kernelTypes)}
}

// kernelTypes reads the types of the kernel; nil if they cannot be read.
func kernelTypes() *btf.Spec {
	spec, err := btf.LoadKernelSpec() // mapped, not copied
	if err != nil {
		return nil
	}
	return spec
}

// stackPointer is the register whose memory is the stack.
const stackPointer = 10

// of returns the field that an instruction of the source line accesses, as STRUCTURE.FIELD; empty if none or several are possible.
func (f *fields) of(b disasm.BPF, line *Line) string {
	if f == nil || line == nil {
		return ""
	}
	base, size := b.Access()
	if size == 0 || base == stackPointer || b.Offset < 0 {
		return ""
	}
	found := ""
	for _, name := range membersIn(line.Text) {
		for _, s := range f.with(name) {
			at, is := f.where(s, name)
			if !is || at != (extent{uint32(b.Offset), uint32(size)}) {
				continue
			}
			full := flavorless(s.Name) + "." + name
			if found != "" && found != full {
				return ""
			}
			found = full
		}
	}
	return found
}

// membersIn returns the identifiers after -> and . in a line of C.
func membersIn(line string) []string {
	var all []string
	for i := 0; i < len(line); i++ {
		switch {
		case line[i] == '.':
		case line[i] == '>' && i > 0 && line[i-1] == '-':
		default:
			continue
		}
		rest := line[i+1:]
		end := strings.IndexFunc(rest, func(r rune) bool { return !isWord(r) })
		if end < 0 {
			end = len(rest)
		}
		if name := rest[:end]; name != "" && (name[0] < '0' || name[0] > '9') {
			all = append(all, name)
		}
	}
	return all
}

func isWord(r rune) bool {
	return r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
}

// with returns the structures with a member of this name.
func (f *fields) with(member string) []*btf.Struct {
	if f.named != nil {
		return f.named[member]
	}
	f.named, f.moved = make(map[string][]*btf.Struct), make(map[*btf.Struct]*btf.Struct)
	for t, err := range f.program.All() {
		if err != nil {
			break // what follows is unknown
		}
		s, is := t.(*btf.Struct)
		if !is || s.Name == "" {
			continue
		}
		for _, m := range s.Members {
			if m.Name != "" {
				f.named[m.Name] = append(f.named[m.Name], s)
			}
		}
	}
	return f.named[member]
}

// where returns where a member is in the kernel's structure of the same name or, if that has no such member, in the program's.
func (f *fields) where(s *btf.Struct, name string) (extent, bool) {
	c, known := f.moved[s]
	if !known {
		if spec := f.kernel(); spec != nil && spec.TypeByName(flavorless(s.Name), &c) != nil {
			c = nil
		}
		f.moved[s] = c
	}
	if c != nil {
		if at, is := member(c, name); is {
			return at, true
		}
	}
	return member(s, name)
}

// flavorless returns the name of a structure without what CO-RE ignores.
func flavorless(name string) string {
	name, _, _ = strings.Cut(name, "___")
	return name
}

// member returns the member with this name, unless it is a bit field.
func member(s *btf.Struct, name string) (extent, bool) {
	for _, m := range s.Members {
		if m.Name != name || m.BitfieldSize != 0 || m.Offset%8 != 0 {
			continue
		}
		size, err := btf.Sizeof(m.Type)
		return extent{m.Offset.Bytes(), uint32(size)}, err == nil
	}
	return extent{}, false
}
