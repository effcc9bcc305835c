package sample

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/bperf/bperf/internal/bpfprog"
	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/internal/symbol/kernel"
)

// Range is a range of addresses from Start up to, but not including, End.
type Range struct{ Start, End uint64 }

// mostRanges is MAX_RANGES of sample.bpf.c.
const mostRanges = 256

// ParseRange parses a range: START-END, or the name of a kernel function. found is false if the kernel has no function with the name, which may then be
// that of a user function.
func ParseRange(text, kallsyms string) (r Range, found bool, err error) {
	first, last, two := strings.Cut(text, "-")
	start, err1 := strconv.ParseUint(first, 0, 64)
	end, err2 := strconv.ParseUint(last, 0, 64)
	if two && err1 == nil && err2 == nil {
		if end <= start {
			return Range{}, false, fmt.Errorf("the range %s ends before it begins", text)
		}
		return Range{start, end}, true, nil
	}
	return findFunction(text, kallsyms)
}

// findFunction returns the range of a kernel function by its name. kallsyms is /proc/kallsyms or a copy of it.
func findFunction(name, kallsyms string) (Range, bool, error) {
	f, err := os.Open(kallsyms)
	if errors.Is(err, fs.ErrNotExist) {
		return Range{}, false, nil
	}
	if err != nil {
		return Range{}, false, fmt.Errorf("find the function %s: %w", name, err)
	}
	defer func() { _ = f.Close() }() // opened for reading only
	address := uint64(0)
	for e, err := range procfs.KernelSymbols(f) {
		if err != nil {
			return Range{}, false, fmt.Errorf("find the function %s: %w", name, err)
		}
		if e.Name == name && (e.Type == 't' || e.Type == 'T' || e.Type == 'w' || e.Type == 'W') {
			address = e.Address
			break
		}
	}
	if address == 0 {
		return Range{}, false, nil
	}
	if _, err := f.Seek(0, 0); err != nil {
		return Range{}, false, fmt.Errorf("find the function %s: %w", name, err)
	}
	all, err := kernel.Parse(f, "", 0)
	if err != nil {
		return Range{}, false, fmt.Errorf("find the function %s: %w", name, err)
	}
	s, ok := all.Find(address)
	return Range{s.Start, s.End}, ok, nil
}

// ProgramRanges returns the ranges of the machine code of the selected BPF programs that are loaded now.
func ProgramRanges(s bpfprog.Selector) ([]Range, error) {
	loaded, err := bpfprog.ReadAll(bpfprog.Detail{Functions: true})
	if err != nil {
		return nil, err
	}
	selected, missing := s.Select(loaded, bpfprog.Machine{})
	var errs []error
	for _, m := range missing {
		errs = append(errs, m)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	var all []Range
	for _, p := range selected {
		for _, f := range p.Functions {
			if f.Address != 0 && f.Size != 0 {
				all = append(all, Range{uint64(f.Address), uint64(f.Address) + uint64(f.Size)})
			}
		}
	}
	if len(all) == 0 {
		return nil, errors.New("where the code of these BPF programs is cannot be seen: it needs CAP_SYS_ADMIN, and a JIT compiler " +
			"(sysctl net.core.bpf_jit_enable, kernel.kptr_restrict)")
	}
	return all, nil
}

// setRanges sets the ranges in the constants of the program.
func setRanges(spec *ebpf.CollectionSpec, ips, programs []Range) error {
	for _, v := range []struct {
		ranges      []Range
		name, count string
	}{{ips, sampleVarIps, sampleVarNrIps}, {programs, sampleVarPrograms, sampleVarNrPrograms}} {
		joined := join(v.ranges)
		if len(joined) > mostRanges {
			return fmt.Errorf("%d ranges of code: there is room for %d", len(joined), mostRanges)
		}
		var all [mostRanges]Range
		copy(all[:], joined)
		if err := setVariables(spec, map[string]any{v.name: all, v.count: uint32(len(joined))}); err != nil {
			return err
		}
	}
	return nil
}

// join sorts ranges, and merges those that overlap or touch.
func join(ranges []Range) []Range {
	all := slices.Clone(ranges)
	slices.SortFunc(all, func(a, b Range) int { return cmp.Compare(a.Start, b.Start) })
	joined := all[:0]
	for _, r := range all {
		if n := len(joined); n > 0 && r.Start <= joined[n-1].End {
			joined[n-1].End = max(joined[n-1].End, r.End)
			continue
		}
		joined = append(joined, r)
	}
	return joined
}

// withFunction replaces the instructions of a function that a program calls.
func withFunction(all asm.Instructions, name string, code asm.Instructions) (asm.Instructions, error) {
	begin := slices.IndexFunc(all, func(in asm.Instruction) bool { return in.Symbol() == name })
	if begin < 0 {
		return nil, fmt.Errorf("the BPF program has no function %s", name)
	}
	end := begin + 1
	for end < len(all) && btf.FuncMetadata(&all[end]) == nil {
		end++
	}
	code = slices.Clone(code)
	first := code[0].WithSymbol(name).WithSource(all[begin].Source())
	code[0] = btf.WithFuncMetadata(first, btf.FuncMetadata(&all[begin]))
	return slices.Concat(all[:begin], code, all[end:]), nil
}
