package replay

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/perfdata"
)

// chainEvent returns an event with callchains.
func chainEvent() *perfdata.Event {
	return &perfdata.Event{Name: "cycles", Attr: perfdata.Attr{Flags: perfdata.AttrSampleIDAll,
		SampleType: perfdata.SampleIP | perfdata.SampleTID | perfdata.SampleTime | perfdata.SampleCallchain}}
}

// TestCallersAtTheirCalls has callchains with addresses at the beginning of functions. A return address there belongs to a call at the end
// of the previous function; a sampled or interrupted address there belongs to the function itself.
func TestCallersAtTheirCalls(t *testing.T) {
	const kernel, second, nowhere = 0xffffffff80000000, 0xffffffff80000100, 0x5000
	const returner, thunk, entry = 0xffffffff80000c00, 0xffffffff80000d00, 0xffffffff80000e00
	reader := written(t, chainEvent(), func(w *perfdata.Writer) {
		w.Write(perfdata.MiscKernel, &perfdata.Mmap{PID: -1, Start: kernel, Length: 0x1000, Filename: "[kernel.kallsyms]_text"})
		for i, chain := range [][]uint64{
			{perfdata.ContextKernel, second, second, second + 1},
			{perfdata.ContextKernel, second, entry + 1, second, second},
			{perfdata.ContextKernel, thunk + 1, second, second},
			{perfdata.ContextKernel, thunk, second + 2},
			{perfdata.ContextKernel, returner, second, second},
			{perfdata.ContextUser, nowhere, perfdata.ContextKernel}, // no mark follows the user's part
			{perfdata.ContextUser, nowhere, nowhere},
		} {
			w.Write(perfdata.MiscKernel, &perfdata.Sample{SampleID: perfdata.SampleID{PID: 10, TID: 10, Time: uint64(i)}, IP: chain[1], Callchain: chain})
		}
	})
	function := func(addr uint64) (Symbol, bool) {
		start := addr &^ 0xff
		name := fmt.Sprintf("f%x", start&0xfff)
		switch start {
		case entry:
			name = "asm_exc_page_fault"
		case thunk:
			name = "__x86_indirect_thunk_rax"
		case returner:
			name = "its_return_thunk"
		}
		return Symbol{Name: name, Start: start, End: start + 0x100}, true
	}
	var got []string
	err := New(reader, Options{SymFS: t.TempDir(), KernelSymbol: function}).Run(func(resolver *Resolver) Handler {
		return func(items []Item, out []byte) []byte {
			for i := range items {
				line := ""
				frames, _ := resolver.Callchain(&items[i])
				for _, f := range frames {
					line += fmt.Sprintf(" %x=%x", f.IP, f.Address())
					if f.Symbol != nil {
						line += fmt.Sprintf(":%s+%x", f.Symbol.Name, f.Offset())
					}
				}
				out = append(out, line+"\n"...)
			}
			return out
		}
	}, writerFunc(func(b []byte) { got = append(got, strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")...) }))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		" ffffffff80000100=ffffffff80000100:f100+0 ffffffff80000100=ffffffff80000100:f0+100 ffffffff80000101=ffffffff80000101:f100+1",
		" ffffffff80000100=ffffffff80000100:f100+0 ffffffff80000e01=ffffffff80000e01:asm_exc_page_fault+1" +
			" ffffffff80000100=ffffffff80000100:f100+0 ffffffff80000100=ffffffff80000100:f0+100",
		" ffffffff80000d01=ffffffff80000d01:__x86_indirect_thunk_rax+1 ffffffff80000100=ffffffff80000100:f100+0 ffffffff80000100=ffffffff80000100:f0+100",
		" ffffffff80000d00=ffffffff80000d00:__x86_indirect_thunk_rax+0 ffffffff80000102=ffffffff80000102:f100+2",
		" ffffffff80000c00=ffffffff80000c00:its_return_thunk+0 ffffffff80000100=ffffffff80000100:f100+0 ffffffff80000100=ffffffff80000100:f0+100",
		" 5000=5000",
		" 5000=5000 5000=5000",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestCutChains has entries that are not addresses. Each such callchain ends there.
func TestCutChains(t *testing.T) {
	const bad = ^uint64(99)
	reader := written(t, chainEvent(), func(w *perfdata.Writer) {
		for i, rest := range [][]uint64{{0x3}, {bad, 0x3}, {^uint64(0), 0x3}, {perfdata.ContextUser, 0x3}, {perfdata.ContextUserDeferred, 0x3}, {bad, 0x3}} {
			w.Write(perfdata.MiscUser, &perfdata.Sample{SampleID: perfdata.SampleID{PID: 10, TID: 10, Time: uint64(i)}, IP: 1,
				Callchain: append([]uint64{perfdata.ContextUser, 0x1, 0x2}, rest...)})
		}
	})
	p, err := New(reader, Options{SymFS: t.TempDir()}).Profile(0)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"1: +1=1 +2=2 +3=3", "5: +1=1 +2=2"}, inStacks(p)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if p.Losses.Truncated != 5 {
		t.Errorf("%d stacks are cut, want 5", p.Losses.Truncated)
	}
}
