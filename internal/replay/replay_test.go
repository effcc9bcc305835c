package replay

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/perfdata"
)

// TestStateAtItsTime changes the names, mappings and kernel code of a machine between thousands of samples. Each sample has the state at its
// time, though handlers work while later records change it.
func TestStateAtItsTime(t *testing.T) {
	const samples, user, kernel = 10_000, 0x1000, 1<<63 | 0x1000
	event := &perfdata.Event{Name: "cycles", Attr: perfdata.Attr{Flags: perfdata.AttrSampleIDAll,
		SampleType: perfdata.SampleIP | perfdata.SampleTID | perfdata.SampleTime}}
	var want []string
	reader := written(t, event, func(w *perfdata.Writer) {
		comm, file, module := "", "", ""
		for i := range samples {
			id := perfdata.SampleID{PID: 5, TID: 5, Time: uint64(2*i + 1)}
			if i%7 == 0 {
				comm = fmt.Sprintf("name%d", i)
				w.Write(perfdata.MiscUser, &perfdata.Comm{SampleID: id, PID: 5, TID: 5, Comm: comm})
			}
			if i%11 == 0 {
				file = fmt.Sprintf("/missing/file%d", i)
				w.Write(perfdata.MiscUser, &perfdata.Mmap2{SampleID: id, PID: 5, TID: 5, Start: user, Length: 0x1000, Protection: protExec, Filename: file})
			}
			switch {
			case i%1000 == 0:
				module = fmt.Sprintf("[module%d]", i)
				w.Write(perfdata.MiscKernel, &perfdata.Mmap2{SampleID: id, PID: -1, Start: kernel, Length: 0x1000, Filename: module})
			case i%13 == 0:
				module = fmt.Sprintf("code%d", i)
				w.Write(perfdata.MiscKernel, &perfdata.KSymbol{SampleID: id, Addr: kernel, Size: 0x1000, Name: module})
			}
			id.Time++
			if i%2 == 0 {
				w.Write(perfdata.MiscUser, &perfdata.Sample{SampleID: id, IP: user + 8})
				want = append(want, fmt.Sprint(id.Time, " ", comm, " ", file))
			} else {
				w.Write(perfdata.MiscKernel, &perfdata.Sample{SampleID: id, IP: kernel + 8})
				want = append(want, fmt.Sprint(id.Time, " ", comm, " ", module))
			}
		}
	})
	var got strings.Builder
	r := New(reader, Options{SymFS: t.TempDir()})
	defer r.Close()
	err := r.Run(func(resolver *Resolver) Handler {
		return func(items []Item, out []byte) []byte {
			for i := range items {
				item := &items[i]
				out = fmt.Appendln(out, item.Sample.Time, item.Thread.Comm, resolver.IP(item).DSO.Path)
			}
			return out
		}
	}, &got)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, strings.Split(strings.TrimSpace(got.String()), "\n")); diff != "" {
		t.Errorf("-want +got:\n%.2000s", diff)
	}
}
