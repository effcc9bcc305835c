package filter

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
)

// samples is the layout of the kernel's struct perf_sample_data, from the kernel's BTF.
type samples struct {
	cast   btf.TypeID // bpf_cast_to_kern_ctx
	data   int16      // offset of the sample's pointer in struct bpf_perf_event_data_kern
	layout *btf.Struct
}

// findSamples looks up how programs access the kernel's samples, which is possible from Linux 6.2 on. From Linux 6.3 on the kernel fills in a
// sample before the program runs. In 6.2 a sample has only the fields that the PMU's driver has filled in.
func findSamples() (*samples, error) {
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		return nil, fmt.Errorf("read the BTF of the kernel: %w", err)
	}
	var cast *btf.Func
	if err := spec.TypeByName("bpf_cast_to_kern_ctx", &cast); err != nil {
		return nil, fmt.Errorf("this kernel has no bpf_cast_to_kern_ctx: %w", err)
	}
	s := &samples{}
	if s.cast, err = spec.TypeID(cast); err != nil {
		return nil, err
	}
	var context *btf.Struct
	err = errors.Join(spec.TypeByName("perf_sample_data", &s.layout), spec.TypeByName("bpf_perf_event_data_kern", &context))
	if err != nil {
		return nil, err
	}
	s.data, _, err = locate(context, "data")
	return s, err
}

// find returns code that loads the sample's address into R7. The context is in R6.
func (s *samples) find() asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(asm.R1, asm.R6),
		{OpCode: asm.OpCode(asm.JumpClass).SetJumpOp(asm.Call), Src: asm.PseudoKfuncCall, Constant: int64(s.cast)},
		asm.LoadMem(asm.R7, asm.R0, s.data, asm.DWord),
	}
}

// load returns an instruction that loads a member, given with dots, into R0, and the member's size in bytes.
func (s *samples) load(member string) (in asm.Instruction, size int, err error) {
	offset, size, err := locate(s.layout, member)
	if err != nil {
		return in, 0, err
	}
	width := asm.DWord
	if size == 4 {
		width = asm.Word
	}
	return asm.LoadMem(asm.R0, asm.R7, offset, width), size, nil
}

// locate finds a member of a structure or union, given with dots. It returns the member's offset and its size, 4 or 8, in bytes.
func locate(t btf.Type, path string) (offset int16, size int, err error) {
	at := uint32(0)
	for name := range strings.SplitSeq(path, ".") {
		m, ok := member(btf.UnderlyingType(t), name)
		if !ok {
			return 0, 0, fmt.Errorf("filter: %s of this kernel has no %s", t.TypeName(), name)
		}
		at += m.Offset.Bytes()
		t = m.Type
	}
	size, err = btf.Sizeof(t)
	if err != nil {
		return 0, 0, err
	}
	if size != 4 && size != 8 || at > math.MaxInt16 {
		return 0, 0, fmt.Errorf("filter: %s of this kernel has %d bytes at %d: no number that a program could load", path, size, at)
	}
	return int16(at), size, nil
}

func member(t btf.Type, name string) (btf.Member, bool) {
	var all []btf.Member
	switch t := t.(type) {
	case *btf.Struct:
		all = t.Members
	case *btf.Union:
		all = t.Members
	}
	for _, m := range all {
		if m.Name == name {
			return m, true
		}
	}
	return btf.Member{}, false
}
