package kernel

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/internal/symbol"
	"github.com/bperf/bperf/test/require"
)

const text = `ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81000000 t last_alias
ffffffff81000010 t $x
ffffffff81000020 W weak
ffffffff81000030 R read_only
ffffffff81000040 D data
ffffffff81fff010 T last
ffffffffc0000100 t second	[mod_b]
ffffffffc0000000 t first	[mod_b]
ffffffffc0002000 T one	[mod_a]
ffffffffc0003008 t bpf_prog_1_x	[bpf]
ffffffffc0003100 t ftrace_trampoline	[__builtin__ftrace]
`

func parse(t testing.TB, text string) *Kallsyms {
	t.Helper()
	k, err := Parse(strings.NewReader(text), "", 0)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func name(k *Kallsyms, addr uint64) string {
	s, ok := k.Find(addr)
	switch {
	case !ok:
		return ""
	case s.Module != "":
		return fmt.Sprintf("%s+%d [%s]", s.Name, addr-s.Start, s.Module)
	}
	return fmt.Sprintf("%s+%d", s.Name, addr-s.Start)
}

func TestKallsyms(t *testing.T) {
	k := parse(t, text)
	for _, test := range []struct {
		addr uint64
		want string
	}{
		{0xffffffff80ffffff, ""},
		{0xffffffff81000000, "last_alias+0"},
		{0xffffffff81000010, "last_alias+16"},
		{0xffffffff81000020, "weak+0"},
		{0xffffffff8100003f, "weak+31"},
		{0xffffffff81000041, "data+1"},
		{0xffffffff81fff010, "last+0"},
		{0xffffffff82000fff, "last+8175"}, // up to the end of the page after
		{0xffffffff82001000, ""},
		{0xffffffffc0000000, "first+0 [mod_b]"},
		{0xffffffffc0000100, "second+0 [mod_b]"},
		{0xffffffffc0001fff, "second+7935 [mod_b]"},
		{0xffffffffc0002000, "one+0 [mod_a]"},
		{0xffffffffc0003000, ""},
		{0xffffffffc0003008, ""},
		{0xffffffffc0003100, ""},
		{^uint64(0), ""},
	} {
		if got := name(k, test.addr); got != test.want {
			t.Errorf("at %#x: %q, not %q", test.addr, got, test.want)
		}
	}
}

// TestFarApart puts the symbols of the kernel into several segments, and has each binding.
func TestFarApart(t *testing.T) {
	k := parse(t, "ffff800000000000 T low\nffff8000ffffffff t before\nffff800100000000 W behind\nffff900000000000 D high\nffff900000000010 t end\n")
	for _, test := range []struct {
		addr    uint64
		want    string
		binding symbol.Binding
	}{
		{0xffff800000000005, "low+5", symbol.Global},
		{0xffff8000fffffffe, "low+4294967294", symbol.Global},
		{0xffff8000ffffffff, "before+0", symbol.Local},
		{0xffff8fffffffffff, "behind+17587891077119", symbol.Weak},
		{0xffff900000000008, "high+8", symbol.Global},
		{0xffff900000000010, "end+0", symbol.Local},
	} {
		s, _ := k.Find(test.addr)
		if got := name(k, test.addr); got != test.want || s.Binding != test.binding {
			t.Errorf("at %#x: %q, binding %d, not %q, %d", test.addr, got, s.Binding, test.want, test.binding)
		}
	}
}

// TestRelocate moves the kernel.
func TestRelocate(t *testing.T) {
	same, err := Parse(strings.NewReader(text), "_text", 0xffffffff81000000)
	if err != nil {
		t.Fatal(err)
	}
	if got := name(same, 0xffffffffc0000000); got != "first+0 [mod_b]" {
		t.Errorf("at the same address: %q", got)
	}
	moved, err := Parse(strings.NewReader(text), "_stext", 0xffffffffa1000000)
	if err != nil {
		t.Fatal(err)
	}
	for addr, want := range map[uint64]string{
		0xffffffff81000020: "", 0xffffffffa1000021: "weak+1", 0xffffffffa1fff010: "last+0", 0xffffffffe0000000: "", 0xffffffffc0000000: "",
	} {
		if got := name(moved, addr); got != want {
			t.Errorf("at %#x: %q, not %q", addr, got, want)
		}
	}
	if _, err := Parse(strings.NewReader(text), "no_such", 1); err == nil || !strings.Contains(err.Error(), "of another kernel") {
		t.Errorf("without the symbol: %v", err)
	}
}

func TestBadKallsyms(t *testing.T) {
	for text, want := range map[string]string{
		"0000000000000000 T a\n0000000000000000 T b\t[m]\n": "kernel.kptr_restrict",
		"ffffffff81000000 T a\nx T b\n":                     `line 2: "x T b" is not`,
		"ffffffff81000000 T \n":                             "line 1",
		"ffffffff81000000T a\n":                             "line 1",
		"ffffffff810000000 T a\n":                           "line 1",
		"ffffffff81000000 T a\t[m\n":                        "line 1",
		"1\n":                                               "line 1",
	} {
		if _, err := Parse(strings.NewReader(text), "", 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, not %q", text, err, want)
		}
	}
	if _, err := Parse(strings.NewReader("0000000000000000 T a\n"), "", 0); !errors.Is(err, ErrHidden) {
		t.Errorf("hidden: %v", err)
	}
	if k := parse(t, ""); name(k, 0) != "" {
		t.Error("nothing has symbols")
	}
	if got := name(parse(t, "0 A x\nffffffffffffffff T a"), ^uint64(0)-1); got != "" {
		t.Errorf("before the last address: %q", got)
	}
}

// TestThisKernel finds symbols of the running kernel.
func TestThisKernel(t *testing.T) {
	require.Root(t)
	text, err := os.ReadFile("/proc/kallsyms")
	if err != nil {
		t.Fatal(err)
	}
	k := parse(t, string(text))
	for e, err := range procfs.KernelSymbols(bytes.NewReader(text)) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Name == "schedule" && e.Module == "" {
			if got := name(k, e.Address+1); got != "schedule+1" {
				t.Errorf("in schedule: %q", got)
			}
			if n := testing.AllocsPerRun(10, func() { k.Find(e.Address + 1) }); n > 1 {
				t.Errorf("Find allocates %v times, not only for the name", n)
			}
			return
		}
	}
	t.Error("the kernel has no function schedule")
}

func BenchmarkParse(b *testing.B) {
	text, err := os.ReadFile("/proc/kallsyms")
	if err != nil {
		b.Skip(err)
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		parse(b, string(text))
	}
}

func FuzzKallsyms(f *testing.F) {
	f.Add(text, uint64(0xffffffff81000020))
	f.Add("0 t a\n1 t b\t[m]\nffffffffffffffff t c", uint64(5))
	f.Fuzz(func(t *testing.T, text string, addr uint64) {
		k, err := Parse(iotest.OneByteReader(strings.NewReader(text)), "", 0)
		if err != nil {
			return
		}
		if s, ok := k.Find(addr); ok && (addr < s.Start || addr >= s.End) {
			t.Errorf("%#x is not in %+v", addr, s)
		}
		if moved, err := Parse(strings.NewReader(text), "a", addr); err == nil {
			moved.Find(addr)
		}
	})
}
