package bpfprog

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/bperf/bperf/internal/bpfprog/disasm"
	"github.com/bperf/bperf/internal/procfs"
)

// Code is the code of a program: its instructions after the verifier rewrote them, and its machine code from the JIT compiler.
type Code struct {
	Translated []Translated    `json:"translated"`
	JITed      []JITedFunction `json:"jited"`

	// Why the code is missing; empty if it is not.
	TranslatedMissing string `json:"translated_missing,omitempty"`
	JITedMissing      string `json:"jited_missing,omitempty"`
}

// Line is a line of source code, from BTF.
type Line struct {
	File   string `json:"file"`   // path of the source
	Number uint32 `json:"number"` // in the file
	Text   string `json:"text"`   // of the line
}

// JITedFunction is a function in machine code.
type JITedFunction struct {
	Name         string  `json:"name,omitempty"` // empty without BTF
	Address      Address `json:"address"`
	Instructions []JITed `json:"instructions"`
}

// JITed is a machine instruction.
type JITed struct {
	Offset uint64 `json:"offset"`           // in bytes, from the start of the function
	Source *Line  `json:"source,omitempty"` // that begins here
	Bytes  string `json:"bytes"`            // in hexadecimal
	Text   string `json:"text"`             // in the notation of assemblers
	Calls  string `json:"calls,omitempty"`  // name of the kernel function that it calls or jumps to

	target uint64
}

// ReadCode returns the code of a program that was read with Detail.Functions, with x86 instructions in one of disasm.Styles. NameCalls sets
// Calls of its instructions. The error is fs.ErrNotExist if the program was unloaded.
func ReadCode(p *Program, style string) (*Code, error) {
	loaded, err := ebpf.NewProgramFromID(ebpf.ProgramID(p.ID))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &noneError{programs.name, p.ID}
	}
	if err != nil {
		return nil, fmt.Errorf("open BPF program %d: %w%s", p.ID, err, remedy(err))
	}
	defer loaded.Close()
	info, err := loaded.Info()
	if err != nil {
		return nil, fmt.Errorf("read the code of BPF program %d: %w", p.ID, err)
	}
	lines, err := info.LineInfos()
	if err != nil && !errors.Is(err, ebpf.ErrNotSupported) {
		return nil, fmt.Errorf("read the source lines of BPF program %d: %w", p.ID, err)
	}
	functions, err := info.FuncInfos()
	if err != nil && !errors.Is(err, ebpf.ErrNotSupported) {
		return nil, fmt.Errorf("read the functions of BPF program %d: %w", p.ID, err)
	}
	c := new(Code)
	code, err := descriptor(loaded.FD()).translated()
	if err != nil {
		return nil, fmt.Errorf("read the instructions of BPF program %d: %w", p.ID, err)
	}
	if c.TranslatedMissing = hidden; code != nil {
		c.Translated, c.TranslatedMissing = newTranslation(p, functions, lines).instructions(code), ""
	}
	if c.JITed, c.JITedMissing, err = jited(p, info, lines, style); err != nil {
		return nil, fmt.Errorf("disassemble BPF program %d: %w", p.ID, err)
	}
	return c, nil
}

// hidden explains which settings hide code (kernel.kptr_restrict, net.core.bpf_jit_harden).
const hidden = "the kernel hides them from this process. Run as root; where root does not see them either: sysctl kernel.kptr_restrict=1 net.core.bpf_jit_harden=0"

func newLine(l *btf.Line) *Line {
	return &Line{File: l.FileName(), Number: l.LineNumber(), Text: strings.TrimSpace(l.Line())}
}

// jited returns the functions in machine code, or why they are missing. lines are the program's source lines; the kernel has one address for
// each.
func jited(p *Program, info *ebpf.ProgramInfo, lines btf.LineOffsets, style string) (all []JITedFunction, missing string, err error) {
	code, ok := info.JitedInsns()
	if p.JITed == 0 {
		return nil, "it was not compiled (sysctl net.core.bpf_jit_enable), or this process may not see it", nil
	}
	if !ok {
		return nil, hidden, nil
	}
	disassemble, err := disasm.InStyle(runtime.GOARCH, style)
	if err != nil {
		return nil, err.Error(), nil
	}
	starts := make(map[uint64]*Line)
	if addresses, ok := info.JitedLineInfos(); ok && len(addresses) == len(lines) {
		for i, a := range addresses {
			starts[a] = newLine(lines[i].Line)
		}
	}
	for _, f := range p.Functions {
		if int(f.Size) > len(code) {
			return nil, "", fmt.Errorf("function %s has %d bytes, of which there are %d", f.Name, f.Size, len(code))
		}
		function := JITedFunction{Name: f.Name, Address: f.Address}
		for _, i := range disassemble(code[:f.Size], uint64(f.Address)) {
			function.Instructions = append(function.Instructions, JITed{
				Offset: i.Address - uint64(f.Address), Source: starts[i.Address], Bytes: i.Bytes(), Text: i.Text, target: i.Target})
		}
		all, code = append(all, function), code[f.Size:]
	}
	return all, "", nil
}

// findAddress returns the address of a symbol of /proc/kallsyms; 0 if there is none, or if addresses are hidden.
func findAddress(symbols []byte, name string) (uint64, error) {
	for s, err := range procfs.KernelSymbols(bytes.NewReader(symbols)) {
		if err != nil || s.Name == name {
			return s.Address, err
		}
	}
	return 0, nil
}

// findNames sets the names of the addresses that are the keys of names.
func findNames(symbols []byte, names map[uint64]string) error {
	for s, err := range procfs.KernelSymbols(bytes.NewReader(symbols)) {
		if err != nil {
			return err
		}
		if name, wanted := names[s.Address]; wanted && name == "" && s.Address != 0 {
			names[s.Address] = s.Name
		}
	}
	return nil
}
