package bpfprog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bperf/bperf/internal/bpfprog/linear"
	"github.com/bperf/bperf/test/require"
)

// TestInfo reads a program with a sub-program, encodes and decodes it, and compares the result with cilium/ebpf and /proc/kallsyms.
func TestInfo(t *testing.T) {
	prog, id := load(t, &ebpf.ProgramSpec{Name: longName, Type: ebpf.RawTracepoint, Instructions: twoFunctions()})
	handle, err := Open(id)
	if err != nil {
		t.Fatal(err)
	}
	defer handle.Close()
	read, err := handle.Info()
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := linear.Decode(read.Append(nil, binary.NativeEndian), binary.NativeEndian)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(read, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("-read +decoded:\n%s", diff)
	}
	info, err := prog.Info()
	if err != nil {
		t.Fatal(err)
	}
	code, _ := info.JitedInsns()
	if !bytes.Equal(code, got.JITed) || len(code) == 0 {
		t.Errorf("%d bytes of code, not %d", len(got.JITed), len(code))
	}
	types, err := ReadBTF(got.BTF)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := linear.LoadBTF(types.Data)
	if err != nil {
		t.Fatal(err)
	}
	p, err := got.Program(spec)
	if err != nil {
		t.Fatal(err)
	}
	if p.Name != longName || p.ID != id || len(p.Functions) != 2 {
		t.Fatalf("%+v", p)
	}
	symbols, err := os.ReadFile("/proc/kallsyms")
	if err != nil {
		t.Fatal(err)
	}
	names := map[uint64]string{p.Functions[0].Address: "", p.Functions[1].Address: ""}
	if err := findNames(symbols, names); err != nil {
		t.Fatal(err)
	}
	for _, f := range p.Functions {
		if names[f.Address] != f.Symbol || !strings.HasSuffix(f.Symbol, "_"+f.Name) {
			t.Errorf("%#x is %s, not %s", f.Address, names[f.Address], f.Symbol)
		}
	}
}

func TestReadNone(t *testing.T) {
	require.Root(t)
	if _, err := Open(1<<32 - 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("program: %v", err)
	}
	if _, err := ReadBTF(1<<32 - 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("BTF: %v", err)
	}
}
