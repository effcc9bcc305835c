package replay

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/perffile"
)

// written returns a recording of one event.
func written(t *testing.T, event *perfdata.Event, write func(*perfdata.Writer)) *perfdata.Reader {
	t.Helper()
	path := perffile.Write(t, []*perfdata.Event{event}, nil, func(w *perfdata.Writer) {
		write(w)
	})
	reader, err := perfdata.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reader.Close() })
	return reader
}

// printedChains returns the samples of a recording as they are handed out: time, thread, and the addresses of the callchain.
func printedChains(t *testing.T, reader *perfdata.Reader) (lines []string, stats Stats) {
	t.Helper()
	r := New(reader, Options{SymFS: t.TempDir()})
	err := r.Run(func(resolver *Resolver) Handler {
		return func(items []Item, out []byte) []byte {
			for i := range items {
				s := items[i].Sample
				line := fmt.Sprintf("%d %d/%d %d:", s.Time, s.PID, s.TID, items[i].Misc.CPUMode())
				chain, _ := resolver.Callchain(&items[i])
				for _, f := range chain {
					line += fmt.Sprintf(" %x", f.IP)
				}
				out = append(out, line+"\n"...)
			}
			return out
		}
	}, writerFunc(func(b []byte) { lines = append(lines, strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")...) }))
	if err != nil {
		t.Fatal(err)
	}
	return lines, r.Stats()
}

type writerFunc func([]byte)

func (f writerFunc) Write(b []byte) (int, error) { f(b); return len(b), nil }

// TestDeferredCallchains joins callchains that come in two parts.
func TestDeferredCallchains(t *testing.T) {
	event := &perfdata.Event{Name: "cycles", Attr: perfdata.Attr{Flags: perfdata.AttrSampleIDAll | perfdata.AttrDeferCallchain | perfdata.AttrDeferOutput,
		SampleType: perfdata.SampleIP | perfdata.SampleTID | perfdata.SampleTime | perfdata.SampleCallchain}}
	id := func(time uint64, tid int32) perfdata.SampleID {
		return perfdata.SampleID{PID: 10, TID: tid, Time: time}
	}
	reader := written(t, event, func(w *perfdata.Writer) {
		sample := func(time uint64, tid int32, chain ...uint64) {
			w.Write(perfdata.MiscKernel, &perfdata.Sample{SampleID: id(time, tid), IP: 0xf0, Callchain: chain})
		}
		rest := func(time uint64, tid int32, cookie uint64, chain ...uint64) {
			w.Write(perfdata.MiscUser, &perfdata.CallchainDeferred{SampleID: id(time, tid), Cookie: cookie, Callchain: chain})
		}
		const kernel, user, later = perfdata.ContextKernel, perfdata.ContextUser, perfdata.ContextUserDeferred
		sample(1, 11, kernel, 0xf1, later, 77)
		sample(2, 12, kernel, 0xf2, later, 88) // another thread
		sample(3, 11, kernel, 0xf3, later, 77) // the same call
		sample(4, 13, kernel, 0xf4, user, 0x4) // waits for nothing
		sample(5, 13, kernel, 0xf5, later, 66) // the rest of it is lost
		rest(6, 11, 77, user, 0xa1, 0xa2)
		sample(7, 13, kernel, 0xf7, later, 99)
		rest(8, 13, 99, user, 0xb1)
		sample(9, 14, kernel, 0xf9, later, 55) // and another: the thread did not return
	})
	got, stats := printedChains(t, reader)
	want := []string{
		"4 10/13 1: f4 4",
		"1 10/11 1: f1 a1 a2",
		"3 10/11 1: f3 a1 a2",
		"5 10/13 1: f5",
		"7 10/13 1: f7 b1",
		"2 10/12 1: f2",
		"9 10/14 1: f9",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if stats.Samples != 7 || stats.First != 1 || stats.Last != 9 {
		t.Errorf("%d samples from %d to %d, want 7 from 1 to 9", stats.Samples, stats.First, stats.Last)
	}
}

// TestManyDeferredCallchains checks that no more samples wait than maxDeferred.
func TestManyDeferredCallchains(t *testing.T) {
	var d deferred
	handed := 0
	for i := range 3 * maxDeferred {
		s := &perfdata.Sample{SampleID: perfdata.SampleID{Time: uint64(i)}, Callchain: []uint64{perfdata.ContextUserDeferred, 1}}
		for _, item := range d.hold(Item{Record: &perfdata.Record{Value: s}, Sample: s}) {
			if item.Sample.Time != uint64(handed) {
				t.Fatalf("sample %d is handed out after %d", item.Sample.Time, handed)
			}
			handed++
		}
		if len(d.waiting) > maxDeferred {
			t.Fatalf("%d wait", len(d.waiting))
		}
	}
	if got := handed + len(d.waiting); got != 3*maxDeferred {
		t.Errorf("%d of %d samples are there", got, 3*maxDeferred)
	}
}

// offCPUEvent is the event that perf 7.2 writes for blocked threads.
func offCPUEvent() *perfdata.Event {
	return &perfdata.Event{Name: "offcpu-time", Attr: perfdata.Attr{Type: 1, Config: 10, SamplePeriod: 1, Flags: perfdata.AttrSampleIDAll,
		SampleType: perfdata.SampleIP | perfdata.SampleTID | perfdata.SampleTime | perfdata.SampleCPU | perfdata.SamplePeriod | perfdata.SampleRaw}}
}

// TestOffCPUDumps reads the samples of blocked threads that perf's BPF programs write.
func TestOffCPUDumps(t *testing.T) {
	dump := func(pid, tid uint32, period, cgroup uint64, chain ...uint64) []byte {
		le := binary.LittleEndian
		b := le.AppendUint64(le.AppendUint32(le.AppendUint32(nil, pid), tid), period)
		b = le.AppendUint64(b, uint64(len(chain)))
		for _, v := range append(chain, cgroup) {
			b = le.AppendUint64(b, v)
		}
		return append(b, 0, 0, 0, 0) // padding
	}
	huge := dump(1, 1, 1, 1, 1)
	huge[23] = 0x80
	reader := written(t, offCPUEvent(), func(w *perfdata.Writer) {
		for i, raw := range [][]byte{
			dump(20, 21, 5000, 7, perfdata.ContextUser, 0xa1, 0xa2),
			dump(20, 22, 6000, 7, perfdata.ContextKernel, 0xf1, perfdata.ContextUser, 0xb1),
			dump(20, 23, 7000, 7),
			make([]byte, 20), // too short
			huge,
		} {
			w.Write(perfdata.MiscKernel, &perfdata.Sample{SampleID: perfdata.SampleID{PID: 1, TID: 1, Time: uint64(i)}, IP: 0xf0, Period: 1, Raw: raw})
		}
	})
	got, _ := printedChains(t, reader)
	want := []string{
		"0 20/21 2: a1 a2",
		"1 20/22 1: f1 b1",
		"2 20/23 1:",
		"3 1/1 1:",
		"4 1/1 1:",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
