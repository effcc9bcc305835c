package sample

import (
	"os"
	"testing"

	"github.com/cilium/ebpf/asm"

	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/internal/replay"
	"github.com/bperf/bperf/test/require"
)

func TestParseSymbol(t *testing.T) {
	for text, want := range map[string]replay.Symbol{
		"schedule+0x10/0x40":              {Name: "schedule", Linkage: "schedule", Start: 0x1000, End: 0x1040},
		"a.isra.0+0x0/0x1 [mod]":          {Name: "a.isra.0", Linkage: "a.isra.0", Start: 0x1010, End: 0x1011, Module: "mod"},
		"bpf_prog_1_x+0x0/0x20 [bpf]":     {},
		"f+0x0/0x20 [__builtin__ftrace]":  {},
		"0xffffffffc0000000":              {},
		"":                                {},
		"a+0x10":                          {},
		"a+0xx/0x1":                       {},
		"a+0x1/0xx":                       {},
		"a+0x2000/0x1":                    {},
		"+0x1/0x1":                        {},
		"schedule+0x10/0x40 [mod":         {Name: "schedule", Linkage: "schedule", Start: 0x1000, End: 0x1040, Module: "mod"},
		"a+0x10/0x10000000000000000 [mod": {},
	} {
		if got, ok := parseSymbol(text, 0x1010); got != want || ok != (want != replay.Symbol{}) {
			t.Errorf("%q: %+v, not %+v", text, got, want)
		}
	}
}

func FuzzParseSymbol(f *testing.F) {
	f.Add("schedule+0x10/0x40 [mod]", uint64(0x1010))
	f.Fuzz(func(t *testing.T, text string, address uint64) {
		if s, ok := parseSymbol(text, address); ok && (s.Name == "" || s.Start > address) {
			t.Errorf("%#x is in %+v", address, s)
		}
	})
}

// TestSymbol looks up functions that kallsyms has.
func TestSymbol(t *testing.T) {
	require.Root(t)
	c, err := newCounter(settings{Keys: Keys{IP: true}, kernel: true, events: 1, entries: 4, filters: make([]asm.Instructions, 1)})
	check(t, err)
	defer c.Close()
	text, err := os.Open("/proc/kallsyms")
	check(t, err)
	defer text.Close()
	const every = 1000
	n, compared := 0, 0
	start, before := uint64(0), uint64(0) // one with a single name up to now
	var name string
	for e, err := range procfs.KernelSymbols(text) {
		check(t, err)
		if n++; start != 0 && e.Address > start && e.Module == "" {
			got, ok := c.symbol(start)
			if !ok || got.Name != name || got.Start != start || got.End <= start {
				t.Errorf("%s at %#x is %+v", name, start, got)
			}
			if again, ok := c.symbol(got.End - 1); !ok || again != got { // without asking again
				t.Errorf("%#x is in %+v, %#x in %+v", start, got, got.End-1, again)
			}
			compared++
		}
		start = 0
		if n%every == 0 && e.Type == 't' && e.Module == "" && e.Address != before && e.Name[0] != '$' {
			start, name = e.Address, e.Name
		}
		before = e.Address
	}
	if compared < 10 {
		t.Errorf("%d symbols were compared", compared)
	}
	if got, ok := c.symbol(1); ok {
		t.Errorf("at 1 there is %+v", got)
	}
}
