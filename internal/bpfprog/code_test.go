package bpfprog

import (
	"errors"
	"io/fs"
	"runtime"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// TestReadCode reads a program that calls a sub-program and a helper. Both kinds of instructions have the call of the sub-program, and the
// call of the helper has its name.
func TestReadCode(t *testing.T) {
	code := twoFunctions()
	helper := asm.FnKtimeGetNs.Call()
	code = append(code[:3:3], append(asm.Instructions{code[3], helper}, code[4:]...)...)
	_, id := load(t, &ebpf.ProgramSpec{Name: longName, Type: ebpf.RawTracepoint, Instructions: code})
	p := read(t, id)
	c, err := ReadCode(p, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := NameCalls([]*Code{c}); err != nil {
		t.Fatal(err)
	}
	if c.TranslatedMissing != "" || c.JITedMissing != "" {
		t.Fatalf("missing: %q, %q", c.TranslatedMissing, c.JITedMissing)
	}
	var functions, helpers []string
	var last Translated
	for _, i := range c.Translated {
		if i.Function != "" {
			functions = append(functions, i.Function)
		}
		if i.Calls != "" {
			helpers = append(helpers, i.Calls)
		}
		last = i
	}
	if got := strings.Join(functions, " "); got != longName+" inner_work" || last.Text != "exit" || last.Offset != uint64(p.Xlated/8-1) {
		t.Errorf("functions %s, at the end %+v", got, last)
	}
	if got := strings.Join(helpers, " "); got != "bpf_ktime_get_ns" {
		t.Errorf("calls %s", got)
	}
	if len(c.JITed) != 2 {
		t.Fatalf("%d functions", len(c.JITed))
	}
	var calls []string
	for n, f := range c.JITed {
		if f.Name != p.Functions[n].Name || f.Address != p.Functions[n].Address {
			t.Errorf("function %d is %s at %s", n, f.Name, f.Address)
		}
		returns := false
		for _, i := range f.Instructions {
			if i.Text == "(bad)" {
				t.Errorf("%s+%#x: unknown instruction %s", f.Name, i.Offset, i.Bytes)
			}
			returns = returns || strings.HasPrefix(i.Text, "ret") || strings.Contains(i.Calls, "return_thunk")
			if strings.Contains(i.Text, "call") {
				calls = append(calls, i.Calls)
			}
		}
		if !returns {
			t.Errorf("%s does not return", f.Name)
		}
	}
	// On arm64 calls go through registers.
	if got := strings.Join(calls, " "); runtime.GOARCH == "amd64" && !strings.Contains(got, "_inner_work") {
		t.Errorf("calls %q", calls)
	}
}

func TestReadCodeOfNone(t *testing.T) {
	prog, id := load(t, &ebpf.ProgramSpec{Type: ebpf.SocketFilter})
	p := read(t, id)
	prog.Close()
	waitGone(t, id)
	if _, err := ReadCode(p, ""); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestSymbols(t *testing.T) {
	const symbols = "ffffffff81000000 T _text\nffffffff81000010 T first\nffffffff81000010 T alias\nffffffffc0000000 t bpf_prog_1_x\t[bpf]\n" +
		"0000000000000000 A nothing\nffffffff81000020 T __bpf_call_base\nffffffff81000030 T __bpf_call_base_args\n"
	names := map[uint64]string{0xffffffff81000010: "", 0xffffffffc0000000: "", 0: "", 5: ""}
	if err := findNames([]byte(symbols), names); err != nil {
		t.Fatal(err)
	}
	if names[0xffffffff81000010] != "first" || names[0xffffffffc0000000] != "bpf_prog_1_x" || names[0] != "" || names[5] != "" {
		t.Errorf("got %v", names)
	}
	if base, err := findAddress([]byte(symbols), callBase); base != 0xffffffff81000020 || err != nil {
		t.Errorf("got %#x, %v", base, err)
	}
	if base, err := findAddress([]byte("ffffffff81000020 T other\n"), callBase); base != 0 || err != nil {
		t.Errorf("got %#x, %v", base, err)
	}
	if err := findNames([]byte("x T y\n"), names); err == nil {
		t.Error("a line without an address is no error")
	}
}
