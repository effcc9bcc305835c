package snapshot

import (
	"os"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/bperf/bperf/internal/bpfprog/linear"
	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/perfdata"
)

// Program emits a loaded BPF program as the kernel does when it loads one: a KSYMBOL for each function, then a BPF_EVENT. spec has the names of its
// functions; nil if they are unknown. verbose gets what could not be read.
func Program(info *linear.Info, spec *btf.Spec, emit Emit, verbose func(string)) error {
	names := *info
	names.JITed, names.Lines, names.JITedLines = nil, nil, nil
	program, err := names.Program(spec)
	if err != nil {
		verbose(err.Error()) // the records lack what could not be read
	}
	for _, f := range program.Functions {
		if f.Address == 0 {
			continue // hidden
		}
		k := &perfdata.KSymbol{Addr: f.Address, Size: f.Size, Type: perfdata.KSymbolBPF, Name: f.Symbol}
		if err := emit(perfdata.MiscKernel, k); err != nil {
			return err
		}
	}
	return emit(perfdata.MiscKernel, &perfdata.BPFEvent{Type: perfdata.BPFEventLoad, ID: info.ID, Tag: info.Tag})
}

// UsesTrampolines reports whether the kernel generates code that calls programs of a type (enum bpf_prog_type): trampolines for tracing, struct_ops,
// extensions and LSM, the dispatcher for XDP.
func UsesTrampolines(kind uint32) bool { return kind == 6 || kind >= 26 && kind <= 29 }

// Trampolines emits BPF trampolines and dispatchers, which only kallsyms lists. proc is where /proc is mounted.
func Trampolines(proc string, emit Emit) error {
	f, err := os.Open(proc + "/kallsyms")
	if err != nil {
		return nil // their samples get no symbol
	}
	defer f.Close()
	for e, err := range procfs.KernelSymbols(f) {
		if err != nil {
			return err
		}
		if e.Module != "bpf" || e.Address == 0 || !strings.HasPrefix(e.Name, "bpf_trampoline_") && !strings.HasPrefix(e.Name, "bpf_dispatcher_") {
			continue
		}
		k := &perfdata.KSymbol{Addr: e.Address, Size: uint32(os.Getpagesize()), Type: perfdata.KSymbolBPF, Name: e.Name}
		if err := emit(perfdata.MiscKernel, k); err != nil {
			return err
		}
	}
	return nil
}
