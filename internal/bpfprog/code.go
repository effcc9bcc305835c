package bpfprog

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
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
	File   string `json:"file"`
	Number uint32 `json:"number"`
	Text   string `json:"text"`
}

// Translated is a BPF instruction.
type Translated struct {
	Offset   uint64 `json:"offset"`             // in instructions of 8 bytes, from the start of the program
	Function string `json:"function,omitempty"` // that begins here
	Source   *Line  `json:"source,omitempty"`   // that begins here
	Text     string `json:"text"`
	Calls    string `json:"calls,omitempty"` // name of the kernel function that it calls

	helper int32 // offset in bytes of the called function from __bpf_call_base; 0 if it calls none
}

// JITedFunction is a function in machine code.
type JITedFunction struct {
	Name         string  `json:"name,omitempty"`
	Address      Address `json:"address"`
	Instructions []JITed `json:"instructions"`
}

// JITed is a machine instruction.
type JITed struct {
	Offset uint64 `json:"offset"`           // in bytes, from the start of the function
	Source *Line  `json:"source,omitempty"` // that begins here
	Bytes  string `json:"bytes"`
	Text   string `json:"text"`
	Calls  string `json:"calls,omitempty"` // name of the kernel function that it calls or jumps to

	target uint64
}

// ReadCode returns the code of a program that was read with Detail.Functions. NameCalls sets Calls of its instructions. The error is
// fs.ErrNotExist if the program was unloaded.
func ReadCode(p *Program) (*Code, error) {
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
	c := new(Code)
	if c.Translated, c.TranslatedMissing, err = translated(info); err != nil {
		return nil, fmt.Errorf("read the instructions of BPF program %d: %w", p.ID, err)
	}
	lines, err := info.LineInfos()
	if err != nil && !errors.Is(err, ebpf.ErrNotSupported) {
		return nil, fmt.Errorf("read the source lines of BPF program %d: %w", p.ID, err)
	}
	if c.JITed, c.JITedMissing, err = jited(p, info, lines); err != nil {
		return nil, fmt.Errorf("disassemble BPF program %d: %w", p.ID, err)
	}
	return c, nil
}

// hidden explains which settings hide code (kernel.kptr_restrict, net.core.bpf_jit_harden).
const hidden = "the kernel hides them from this process. Run as root; where root does not see them either: sysctl kernel.kptr_restrict=1 net.core.bpf_jit_harden=0"

// translated returns the BPF instructions, or why they are missing.
func translated(info *ebpf.ProgramInfo) (all []Translated, missing string, err error) {
	instructions, err := info.Instructions()
	if errors.Is(err, ebpf.ErrRestrictedKernel) || errors.Is(err, ebpf.ErrNotSupported) {
		return nil, hidden, nil
	}
	if err != nil {
		return nil, "", err
	}
	for i := instructions.Iterate(); i.Next(); {
		t := Translated{Offset: uint64(i.Offset), Function: i.Ins.Symbol(), Text: fmt.Sprint(*i.Ins)}
		if f := btf.FuncMetadata(i.Ins); f != nil {
			t.Function = f.Name
		}
		if i.Ins.IsLoadFromMap() { // the kernel has replaced the map's descriptor by its ID
			t.Text = strings.Replace(t.Text, "fd: ", "map: ", 1)
		}
		if i.Ins.IsBuiltinCall() {
			t.helper = int32(i.Ins.Constant)
		}
		if line, ok := i.Ins.Source().(*btf.Line); ok {
			t.Source = newLine(line)
		}
		all = append(all, t)
	}
	return all, "", nil
}

func newLine(l *btf.Line) *Line {
	return &Line{File: l.FileName(), Number: l.LineNumber(), Text: strings.TrimSpace(l.Line())}
}

// jited returns the functions in machine code, or why they are missing. lines are the program's source lines; the kernel has one address for
// each.
func jited(p *Program, info *ebpf.ProgramInfo, lines btf.LineOffsets) (all []JITedFunction, missing string, err error) {
	code, ok := info.JitedInsns()
	if p.JITed == 0 {
		return nil, "it was not compiled (sysctl net.core.bpf_jit_enable), or this process may not see it", nil
	}
	if !ok {
		return nil, hidden, nil
	}
	disassemble, err := disasm.For(runtime.GOARCH)
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

// callBase is the symbol to which calls of translated instructions are relative.
const callBase = "__bpf_call_base"

// NameCalls sets Calls of instructions to the names that /proc/kallsyms has. Reading that file takes long, so give it all programs at once.
func NameCalls(all []*Code) error {
	symbols, err := os.ReadFile("/proc/kallsyms")
	if errors.Is(err, fs.ErrNotExist) { // a kernel without CONFIG_KALLSYMS
		return nil
	}
	if err != nil {
		return fmt.Errorf("name what BPF programs call: %w", err)
	}
	base, err := findAddress(symbols, callBase)
	if err != nil {
		return fmt.Errorf("name what BPF programs call: %w", err)
	}
	names := make(map[uint64]string)
	for _, c := range all {
		c.eachCall(base, func(target uint64, _ *string) { names[target] = "" })
	}
	if err := findNames(symbols, names); err != nil {
		return fmt.Errorf("name what BPF programs call: %w", err)
	}
	for _, c := range all {
		c.eachCall(base, func(target uint64, name *string) { *name = names[target] })
	}
	return nil
}

// eachCall calls do for each instruction that calls or jumps to a kernel address. If base is 0, it skips translated instructions.
func (c *Code) eachCall(base uint64, do func(target uint64, name *string)) {
	for i := range c.Translated {
		if t := &c.Translated[i]; t.helper != 0 && base != 0 {
			do(base+uint64(int64(t.helper)), &t.Calls)
		}
	}
	for _, f := range c.JITed {
		for i := range f.Instructions {
			if j := &f.Instructions[i]; j.target != 0 {
				do(j.target, &j.Calls)
			}
		}
	}
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
