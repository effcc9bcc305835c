package linear

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"
)

// Program is a BPF program with the names and source lines from its BTF.
type Program struct {
	ID        uint32
	Type      uint32     // BPF_PROG_TYPE_* of include/uapi/linux/bpf.h
	Name      string     // complete with BTF, else its first 15 bytes
	Tag       string     // in hexadecimal
	BTF       uint32     // ID; 0 without BTF
	Functions []Function // the program itself first; none if the JIT compiler did not run
}

// Function is a function of a program, in machine code.
type Function struct {
	Name    string // from BTF; without BTF that of the program, and "F" for sub-programs, as in the kernel
	Symbol  string // as in /proc/kallsyms and PERF_RECORD_KSYMBOL
	Tag     string // of the function, in hexadecimal
	Address uint64 // 0 if kernel addresses are hidden
	Size    uint32 // bytes
	Code    []byte // nil if the Info has none
	Lines   []Line // sorted by address
}

// Line is a line of source code and the address where its code begins.
type Line struct {
	Address uint64
	File    string
	Number  uint32
	Column  uint32
	Text    string
}

// LoadBTF parses BTF in either byte order.
func LoadBTF(data []byte) (*btf.Spec, error) {
	if len(data) < 2 || binary.LittleEndian.Uint16(data) != 0xeb9f && binary.BigEndian.Uint16(data) != 0xeb9f {
		return nil, errors.New("it does not begin with the magic number of BTF, 0xeb9f")
	}
	return btf.LoadSpecFromReader(bytes.NewReader(data))
}

// Program returns the program with its functions, code and lines. spec is the BTF with the ID i.BTF, or nil. If there is an error, the
// program is returned without the part that could not be decoded.
func (i *Info) Program(spec *btf.Spec) (*Program, error) {
	p := &Program{ID: i.ID, Type: i.Type, Name: i.Name, Tag: hex.EncodeToString(i.Tag[:]), BTF: i.BTF}
	if i.JITedSize > 0 {
		p.Functions = make([]Function, max(len(i.Addresses), len(i.Sizes), len(i.Tags)))
	}
	for n := range p.Functions {
		p.Functions[n].Name = "F"
	}
	fail := func(err error) error { return fmt.Errorf("BPF program %d (%s): %w", i.ID, i.Name, err) }
	nameError := i.names(p, spec)
	i.functions(p)
	if err := i.code(p); err != nil {
		return p, fail(errors.Join(nameError, err))
	}
	lines, err := i.lines(spec)
	if err != nil {
		return p, fail(errors.Join(nameError, err))
	}
	for n := range p.Functions {
		p.Functions[n].takeLines(lines)
	}
	if nameError != nil {
		return p, fail(nameError)
	}
	return p, nil
}

// names sets the names of the program and its functions from BTF.
func (i *Info) names(p *Program, spec *btf.Spec) error {
	if len(p.Functions) > 0 {
		p.Functions[0].Name = i.Name
	}
	if spec == nil {
		return nil
	}
	for n, f := range i.Functions {
		t, err := spec.TypeByID(btf.TypeID(f.Type))
		if err != nil {
			return fmt.Errorf("name of function %d in BTF %d: %w", n+1, i.BTF, err)
		}
		if _, ok := t.(*btf.Func); !ok {
			return fmt.Errorf("name of function %d in BTF %d: type %d is a %T", n+1, i.BTF, f.Type, t)
		}
		if n < len(p.Functions) {
			p.Functions[n].Name = t.TypeName()
		}
		if n == 0 && strings.HasPrefix(t.TypeName(), p.Name) {
			p.Name = t.TypeName()
		}
	}
	return nil
}

// functions sets tag, symbol, address and size of each function. The first function may have its own tag if there are others, but the kernel
// uses the program's tag in its symbol.
func (i *Info) functions(p *Program) {
	for n := range p.Functions {
		f := &p.Functions[n]
		f.Tag = p.Tag
		symbolTag := p.Tag
		if n < len(i.Tags) {
			f.Tag = hex.EncodeToString(i.Tags[n][:])
			if n > 0 {
				symbolTag = f.Tag
			}
		}
		f.Symbol = "bpf_prog_" + symbolTag
		if f.Name != "" {
			f.Symbol += "_" + f.Name
		}
		if n < len(i.Addresses) {
			f.Address = i.Addresses[n]
		}
		if n < len(i.Sizes) {
			f.Size = i.Sizes[n]
		}
	}
}

// code sets the code of each function.
func (i *Info) code(p *Program) error {
	rest := i.JITed
	if len(rest) == 0 {
		return nil
	}
	for n := range p.Functions {
		f := &p.Functions[n]
		if int64(f.Size) > int64(len(rest)) {
			return fmt.Errorf("code of function %d has %d bytes, of which there are %d", n+1, f.Size, len(rest))
		}
		f.Code, rest = rest[:f.Size:f.Size], rest[f.Size:]
	}
	return nil
}

// lines returns the source lines of all functions, sorted by address. It returns none if addresses are hidden.
func (i *Info) lines(spec *btf.Spec) ([]Line, error) {
	if spec == nil || len(i.Lines) == 0 || len(i.JITedLines) == 0 || i.JITedLines[0] == 0 {
		return nil, nil
	}
	if len(i.Lines) != len(i.JITedLines) {
		return nil, fmt.Errorf("it has %d source lines and %d addresses for them", len(i.Lines), len(i.JITedLines))
	}
	var b []byte
	for n, l := range i.Lines { // LoadLineInfos sorts by instruction; the index in its place keeps the order of JITedLines
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
		b = binary.LittleEndian.AppendUint32(b, l.File)
		b = binary.LittleEndian.AppendUint32(b, l.Text)
		b = binary.LittleEndian.AppendUint32(b, l.LineColumn)
	}
	found, err := btf.LoadLineInfos(bytes.NewReader(b), binary.LittleEndian, uint32(len(i.Lines)), spec)
	if err != nil {
		return nil, fmt.Errorf("source lines in BTF %d: %w", i.BTF, err)
	}
	all := make([]Line, len(found))
	for n, l := range found {
		all[n] = Line{i.JITedLines[n], l.Line.FileName(), l.Line.LineNumber(), l.Line.LineColumn(), strings.TrimSpace(l.Line.Line())}
	}
	slices.SortStableFunc(all, func(a, b Line) int { return cmp.Compare(a.Address, b.Address) })
	return all, nil
}

func byAddress(l Line, address uint64) int { return cmp.Compare(l.Address, address) }

// takeLines sets the lines whose code is in the function.
func (f *Function) takeLines(sorted []Line) {
	if f.Address == 0 {
		return
	}
	start, _ := slices.BinarySearchFunc(sorted, f.Address, byAddress)
	end, _ := slices.BinarySearchFunc(sorted, f.Address+uint64(f.Size), byAddress)
	if start < end {
		f.Lines = sorted[start:end:end]
	}
}
