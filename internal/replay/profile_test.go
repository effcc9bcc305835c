package replay

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/perfdata"
)

// inStacks describes the samples of a profile: their counts, and the frames with their addresses in the module and in memory, and with their
// functions.
func inStacks(p *profile.Profile) []string {
	var all []string
	for _, s := range p.Samples() {
		line := fmt.Sprintf("%d:", s.Count)
		for id := range p.Stacks.Frames(s.Stack) {
			f := p.Frames()[id]
			line += describeFrame(p.Strings.At(p.Modules.At(f.Module).Name), f.Address, f.IP, p.Strings.At(p.Functions.At(f.Function).Name), f.Return)
		}
		all = append(all, line)
	}
	slices.Sort(all)
	return all
}

func describeFrame(module string, address, ip uint64, function string, returns bool) string {
	line := fmt.Sprintf(" %s+%x=%x", module, address, ip)
	if function != "" {
		line += ":" + function
	}
	if returns {
		line += " (call)"
	}
	return line
}

// TestFramesWithoutSymbols has two processes with a file at different addresses. As in perf, frames without a symbol are distinguished by
// their address in memory.
func TestFramesWithoutSymbols(t *testing.T) {
	event := &perfdata.Event{Name: "cycles", Attr: perfdata.Attr{Flags: perfdata.AttrSampleIDAll,
		SampleType: perfdata.SampleIP | perfdata.SampleTID | perfdata.SampleTime | perfdata.SampleCallchain}}
	reader := written(t, event, func(w *perfdata.Writer) {
		for i, start := range []uint64{0x10000, 0x50000} {
			pid := int32(10 + i)
			w.Write(perfdata.MiscUser, &perfdata.Mmap2{PID: pid, TID: pid, Start: start, Length: 0x1000, Protection: protExec, Filename: "/none",
				SampleID: perfdata.SampleID{PID: pid, TID: pid}})
			for range 2 {
				w.Write(perfdata.MiscUser, &perfdata.Sample{SampleID: perfdata.SampleID{PID: pid, TID: pid, Time: uint64(i)}, IP: start + 1,
					Callchain: []uint64{perfdata.ContextUser, start + 1, start + 2}})
			}
		}
	})
	p, err := New(reader, Options{SymFS: t.TempDir()}).Profile(0)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"2: none+1=10001 none+2=10002", "2: none+1=50001 none+2=50002"}
	if diff := cmp.Diff(want, inStacks(p)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestCallersAgain has a few callers in all forms of callchains, in two threads, while mappings change. Cached callers must equal those that
// are resolved frame by frame. In the kernel are the functions of two bytes f, asm_entry, where interrupts enter, x_return_thunk and g.
func TestCallersAgain(t *testing.T) {
	event := &perfdata.Event{Name: "cycles", Attr: perfdata.Attr{Flags: perfdata.AttrSampleIDAll,
		SampleType: perfdata.SampleIP | perfdata.SampleTID | perfdata.SampleTime | perfdata.SampleCallchain}}
	const user, kernel, bad = 0x10000, 0xffffffff80000000, ^uint64(99)
	write := func(w *perfdata.Writer) {
		random := rand.New(rand.NewPCG(1, 2))
		some := []uint64{user + 1, user + 2, kernel + 1, kernel + 2, kernel + 3, kernel + 4, kernel + 5, kernel + 6}
		odd := append(some, perfdata.ContextKernel, perfdata.ContextUser, perfdata.ContextGuestUser, bad)
		for i := range 40_000 {
			at := perfdata.SampleID{PID: 10, TID: int32(10 + random.IntN(2)), Time: uint64(i)}
			file := fmt.Sprint("/none", random.IntN(3))
			switch random.IntN(50) {
			case 0:
				w.Write(perfdata.MiscUser, &perfdata.Mmap2{PID: 10, TID: 10, Start: user, Length: 0x1000, Protection: protExec, Filename: file, SampleID: at})
			case 1:
				w.Write(perfdata.MiscKernel, &perfdata.Mmap{PID: -1, Start: kernel, Length: 0x1000, Filename: file + ".ko", SampleID: at})
			}
			var chain []uint64
			switch random.IntN(4) {
			case 0:
				chain = []uint64{odd[len(some)+random.IntN(2)]}
				for range random.IntN(9) {
					chain = append(chain, odd[random.IntN(len(odd))])
				}
			default:
				for _, part := range [][]uint64{append(some[2:], perfdata.ContextKernel), append(some[:2:2], perfdata.ContextUser)} {
					if random.IntN(4) == 0 {
						continue
					}
					mark := len(part) - 1
					chain = append(chain, part[mark])
					for range random.IntN(6) {
						chain = append(chain, part[random.IntN(mark)])
					}
				}
			}
			w.Write(perfdata.MiscUser, &perfdata.Sample{SampleID: at, IP: user + 1, Callchain: chain})
		}
	}
	names := []string{"f", "asm_entry", "x_return_thunk", "g"}
	symbols := func(addr uint64) (Symbol, bool) {
		start := addr &^ 1
		return Symbol{Name: names[(start-kernel)/2], Start: start, End: start + 2}, true
	}
	options := Options{SymFS: t.TempDir(), MaxStack: 8, KernelSymbol: symbols}
	p, err := New(written(t, event, write), options).Profile(profile.Time | profile.Address | profile.IP)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	err = New(written(t, event, write), options).Run(func(resolver *Resolver) Handler {
		return func(items []Item, out []byte) []byte {
			for i := range items {
				line := "1:"
				frames, _ := resolver.Callchain(&items[i])
				for _, f := range frames {
					var module, function string
					if f.DSO != nil {
						module = f.DSO.Short
					}
					if f.Symbol != nil {
						function = f.Symbol.Name
					}
					line += describeFrame(module, f.Address(), f.IP, function, f.Return)
				}
				out = append(out, line+"\n"...)
			}
			return out
		}
	}, writerFunc(func(b []byte) { want = append(want, strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")...) }))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, inStacks(p)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestInfo checks the time of a recording, which starts with its first sample.
func TestInfo(t *testing.T) {
	event := &perfdata.Event{Name: "cycles", Attr: perfdata.Attr{SampleType: perfdata.SampleIP | perfdata.SampleTID | perfdata.SampleTime}}
	reader := written(t, event, func(w *perfdata.Writer) {
		if err := w.SetFeature(perfdata.FeatureClockData, perfdata.ClockData{WallClock: 1_000_000, Clock: 1000}); err != nil {
			t.Fatal(err)
		}
		for _, at := range []uint64{5000, 7000} {
			w.Write(perfdata.MiscUser, &perfdata.Sample{SampleID: perfdata.SampleID{PID: 10, TID: 10, Time: at}, IP: 1})
		}
	})
	p, err := New(reader, Options{SymFS: t.TempDir()}).Profile(0)
	if err != nil {
		t.Fatal(err)
	}
	if want := time.Unix(0, 1_004_000); !p.Info.Start.Equal(want) || p.Info.Duration != 2*time.Microsecond {
		t.Errorf("starts at %d and takes %v, want %d and 2µs", p.Info.Start.UnixNano(), p.Info.Duration, want.UnixNano())
	}
}
