package replay

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/internal/perfdata"
	"github.com/bperf/bperf/internal/profile"
)

// inStacks are the samples of a profile in words: their counts, and the addresses of their frames in the module and in memory.
func inStacks(p *profile.Profile) []string {
	var all []string
	for _, s := range p.Samples() {
		line := fmt.Sprintf("%d:", s.Count)
		for id := range p.Stacks.Frames(s.Stack) {
			f := p.Frames()[id]
			line += fmt.Sprintf(" %s+%x=%x", p.Strings.At(p.Modules.At(f.Module).Name), f.Address, f.IP)
		}
		all = append(all, line)
	}
	slices.Sort(all)
	return all
}

// TestFramesWithoutSymbols has two processes with a file at different addresses. What has no symbol there is told apart by its address in memory,
// as in perf.
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
