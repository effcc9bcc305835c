package bpfprog

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"sync"
	"unsafe"

	"github.com/cilium/ebpf/btf"

	"github.com/bperf/bperf/internal/bpfprog/disasm"
)

// Translated is a BPF instruction.
type Translated struct {
	Offset   uint64 `json:"offset"`             // in instructions of 8 bytes, from the start of the program
	Function string `json:"function,omitempty"` // that begins here
	Source   *Line  `json:"source,omitempty"`   // that begins here
	Opcode   uint8  `json:"opcode"`             // of the BPF instruction
	Text     string `json:"text"`               // in the verifier's notation
	Calls    string `json:"calls,omitempty"`    // name of the kernel function that it calls
	Map      string `json:"map,omitempty"`      // name of the map whose address it loads
	Variable string `json:"variable,omitempty"` // global variable whose address it loads, and maybe a distance from it, as +8
	Field    string `json:"field,omitempty"`    // field that it reads or writes, as STRUCTURE.FIELD, if the source line makes it known

	call   kernelCall
	target int32 // distance in bytes of the called function from __bpf_call_base; of a kfunc with typedKfuncs, its type
}

// kernelCall says which kind of kernel function an instruction calls.
type kernelCall uint8

const (
	noKernelCall kernelCall = iota
	helperCall
	kfuncCall
)

// translated returns the instructions after the verifier rewrote them; nil if the kernel hides them.
func (d descriptor) translated() ([]byte, error) {
	var counts programInfo
	if err := d.info(unsafe.Pointer(&counts), unsafe.Sizeof(counts)); err != nil {
		return nil, err
	}
	if counts.xlatedSize == 0 {
		return nil, nil
	}
	code := make([]byte, counts.xlatedSize)
	info := programInfo{xlatedSize: counts.xlatedSize, xlatedCode: start(code)}
	if err := d.info(unsafe.Pointer(&info), unsafe.Sizeof(info)); err != nil {
		return nil, err
	}
	return shown(code, info.xlatedCode), nil
}

// translation turns the instructions of a program into text.
type translation struct {
	functions []int // slot where each begins
	names     map[int]string
	lines     map[int]*Line
	maps      map[uint32]usedMap
	fields    *fields
}

// usedMap is a map as instructions name it.
type usedMap struct {
	name      string
	variables []btf.VarSecinfo // in the order of their offsets; nil if it does not hold global variables
}

func newTranslation(p *Program, functions btf.FuncOffsets, lines btf.LineOffsets) *translation {
	types := make(specs)
	t := &translation{names: map[int]string{0: p.Name}, lines: make(map[int]*Line), maps: make(map[uint32]usedMap), fields: newFields(types.of(p.BTF))}
	for _, f := range functions {
		t.functions, t.names[int(f.Offset)] = append(t.functions, int(f.Offset)), f.Func.Name
	}
	for _, l := range lines {
		t.lines[int(l.Offset)] = newLine(l.Line)
	}
	for _, id := range p.MapIDs {
		if m, err := readUsedMap(id, types); err == nil { // a map that cannot be read has its ID in the text
			t.maps[id] = m
		}
	}
	return t
}

// readUsedMap reads the name of a map and of the global variables in it.
func readUsedMap(id uint32, types specs) (usedMap, error) {
	d, info, err := openMap(id)
	if err != nil {
		return usedMap{}, err
	}
	defer d.close()
	m := usedMap{name: text(info.name[:])}
	spec := types.of(info.btf)
	if spec == nil || info.valueType == 0 {
		return m, nil
	}
	if section, err := spec.TypeByID(btf.TypeID(info.valueType)); err == nil {
		if section, is := section.(*btf.Datasec); is {
			m.variables = section.Vars
		}
	}
	return m, nil
}

// variable returns what is at an offset in the map's value.
func (m usedMap) variable(offset uint32) string {
	for _, v := range m.variables {
		if offset < v.Offset || uint64(offset) >= uint64(v.Offset)+uint64(v.Size) {
			continue
		}
		if offset == v.Offset {
			return v.Type.TypeName()
		}
		return fmt.Sprintf("%s+%d", v.Type.TypeName(), offset-v.Offset)
	}
	return ""
}

func (t *translation) instructions(code []byte) []Translated {
	var all []Translated
	var line *Line // that the instruction is of
	for _, b := range disasm.DecodeBPF(code) {
		i := Translated{Offset: uint64(b.Slot), Function: t.names[b.Slot], Source: t.lines[b.Slot], Opcode: b.Code, Text: b.String()}
		if i.Source != nil {
			line = i.Source
		}
		i.Field = t.fields.of(b, line)
		switch {
		case b.IsCall() && b.Src == disasm.BPFPseudoCall:
			i.Text = t.callWithin(b)
		case b.IsCall():
			i.call, i.target, i.Text = helperCall, b.Imm, fmt.Sprintf("call unknown#%d", b.Imm)
			if b.Src == disasm.BPFPseudoKfunc {
				i.call = kfuncCall
			}
		case b.IsWide() && b.Src == disasm.BPFPseudoFunction:
			if name := t.names[b.Slot+1+int(b.Imm)]; name != "" {
				i.Text += "#" + name
			}
		case b.IsWide() && (b.Src == disasm.BPFPseudoMap || b.Src == disasm.BPFPseudoMapValue):
			m := t.maps[uint32(b.Imm)]
			if i.Map = m.name; b.Src == disasm.BPFPseudoMapValue {
				i.Variable = m.variable(uint32(b.High))
			}
		}
		all = append(all, i)
	}
	return all
}

// callWithin returns the text of the call of a sub-program. The kernel keeps 16 bits of its distance in the field for the offset, and its
// index among the functions in that for the constant, unless the program is interpreted (jit_subprogs in kernel/bpf/verifier.c).
func (t *translation) callWithin(b disasm.BPF) string {
	to := b.Slot + 1 + int(b.Offset)
	if n := int(b.Imm); n > 0 && n < len(t.functions) && int16(t.functions[n]-b.Slot-1) == b.Offset {
		to = t.functions[n]
	}
	s := fmt.Sprintf("call pc%+d", to-b.Slot-1)
	if name := t.names[to]; name != "" {
		s += "#" + name
	}
	return s
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
	nameTranslated(all)
	return nil
}

// eachCall calls do for each instruction that calls or jumps to a kernel address. If base is 0, it skips translated instructions.
func (c *Code) eachCall(base uint64, do func(target uint64, name *string)) {
	for i := range c.Translated {
		if t := &c.Translated[i]; t.call != noKernelCall && t.target != 0 && base != 0 {
			do(base+uint64(int64(t.target)), &t.Calls)
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

// nameTranslated writes the names of called functions into the text of BPF instructions, with the numbers of helpers.
func nameTranslated(all []*Code) {
	kernel := sync.OnceValue(kernelTypes)
	numbers := make(map[string]int32)
	for n := int32(1); disasm.Helper(n) != ""; n++ {
		numbers[disasm.Helper(n)] = n
	}
	for _, c := range all {
		for i := range c.Translated {
			t := &c.Translated[i]
			if t.call == kfuncCall && typedKfuncs {
				t.Calls = cmp.Or(kfuncName(kernel(), t.target), t.Calls)
			}
			if t.call == noKernelCall || t.Calls == "" {
				continue
			}
			t.Text = "call " + t.Calls
			if n, is := numbers[t.Calls]; is {
				t.Text += fmt.Sprintf("#%d", n)
			}
		}
	}
}

// typedKfuncs is set on architectures whose JIT compiler reaches functions anywhere. There, instructions that call kfuncs keep the type of
// the function in the kernel's BTF (bpf_jit_supports_far_kfunc_call, Linux 6.4).
const typedKfuncs = runtime.GOARCH == "arm64"

// kfuncName returns the name of the function with this type in the kernel's BTF; empty if it cannot be read.
func kfuncName(kernel *btf.Spec, id int32) string {
	if kernel == nil || id <= 0 {
		return ""
	}
	t, err := kernel.TypeByID(btf.TypeID(id))
	if err != nil {
		return ""
	}
	if f, is := t.(*btf.Func); is {
		return f.Name
	}
	return ""
}
