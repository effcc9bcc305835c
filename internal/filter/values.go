package filter

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf/asm"

	"github.com/bperf/bperf/perfdata"
)

// Value is a field of samples, and where a program writes it.
type Value struct {
	Field  string // a numeric field, named as in an expression
	Offset int16  // bytes from the second argument of Values.Function
	Size   int    // bytes: 4 or 8; with 4, larger numbers lose their upper bits
}

// Values are the fields that a program reads from each sample.
type Values []Value

// SampleType returns the sample type that the event must have for the program to read the values.
func (v Values) SampleType() (bits perfdata.SampleType) {
	for _, value := range v {
		bits |= byName[value.Field].sample
	}
	return bits
}

// Function returns code that reads the values, as a function of another program of type perf_event. The function's arguments are the context
// and a pointer. It writes the values to the memory at the pointer and returns 0. Function returns an *UnseenError if programs cannot read
// one of the fields on this kernel. The function has the requirements of Filter.Load.
func (v Values) Function() (asm.Instructions, error) {
	l, err := newLayout(slices.ContainsFunc(v, func(value Value) bool { return byName[value.Field].source == sourceData }))
	if err != nil {
		return nil, err
	}
	body, err := v.stores(l.load)
	if err != nil {
		return nil, err
	}
	return append(append(asm.Instructions{asm.Mov.Reg(asm.R8, asm.R2)}, l.prologue()...), body...), nil
}

// stores returns code that writes the values to the memory at R8 and returns 0.
func (v Values) stores(load func(*field) (asm.Instructions, error)) (all asm.Instructions, err error) {
	for _, value := range v {
		loads, err := load(byName[value.Field])
		if err != nil {
			return nil, err
		}
		width := asm.DWord
		if value.Size == 4 {
			width = asm.Word
		}
		all = append(append(all, loads...), asm.StoreMem(asm.R8, value.Offset, asm.R0, width))
	}
	return append(all, asm.Mov.Imm(asm.R0, 0), asm.Return()), nil
}

// UnseenError is returned for a field that BPF programs cannot read on this kernel.
type UnseenError struct {
	Field string
	Err   error // the reason
}

func (e *UnseenError) Error() string {
	return fmt.Sprintf("filter: %s is in the kernel's own samples, which programs see from Linux 6.2 on: %v", e.Field, e.Err)
}

func (e *UnseenError) Unwrap() error { return e.Err }
