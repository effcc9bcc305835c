package script

import (
	"encoding/binary"
	"testing"

	"github.com/bperf/bperf/internal/replay"
	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/perffile"
	"github.com/bperf/bperf/test/require"
)

// writeRecording writes a recording of one event in a thread with a mapped libc. write gets the address of the libc.
func writeRecording(t *testing.T, event *perfdata.Event, write func(w *perfdata.Writer, id perfdata.SampleID, code uint64)) string {
	t.Helper()
	return perffile.Write(t, []*perfdata.Event{event}, nil, func(w *perfdata.Writer) {
		lib, code, _ := library(t)
		id := perfdata.SampleID{PID: 100, TID: 100, Time: 1e9, ID: event.IDs[0]}
		w.Write(perfdata.MiscUser, &perfdata.Comm{SampleID: id, PID: 100, TID: 100, Comm: "worker"})
		const base = 0x7f0000000000
		w.Write(perfdata.MiscUser, &perfdata.Mmap2{SampleID: id, PID: 100, TID: 100, Start: base + code.Off, Length: code.Filesz, Offset: code.Off,
			Protection: 5, Flags: 2, Filename: lib})
		write(w, id, base+code.Off)
	})
}

// TestPrintsDeferredAsPerfDoes prints callchains that come in two parts, which exist since Linux 6.19. (If the second part is lost, perf
// 7.2 treats the cookie that would have joined them as an address.)
func TestPrintsDeferredAsPerfDoes(t *testing.T) {
	require.NewestPerf(t)
	event := &perfdata.Event{Name: "cycles", IDs: []uint64{7}, Attr: perfdata.Attr{SamplePeriod: 1000,
		Flags: perfdata.AttrSampleIDAll | perfdata.AttrDeferCallchain | perfdata.AttrDeferOutput, SampleType: perfdata.SampleIdentifier | perfdata.SampleIP |
			perfdata.SampleTID | perfdata.SampleTime | perfdata.SampleCallchain | perfdata.SamplePeriod}}
	file := writeRecording(t, event, func(w *perfdata.Writer, id perfdata.SampleID, code uint64) {
		const kernel, user, later = perfdata.ContextKernel, perfdata.ContextUser, perfdata.ContextUserDeferred
		const k = 0xffffffff80000000
		for cookie := range uint64(20) {
			id.TID = 100 + int32(cookie%3)
			for i := range uint64(3) {
				id.Time += 1000
				w.Write(perfdata.MiscKernel, &perfdata.Sample{SampleID: id, IP: k + i, Period: 5, Callchain: []uint64{kernel, k + i, later, cookie}})
			}
			id.Time += 1000
			w.Write(perfdata.MiscUser, &perfdata.CallchainDeferred{SampleID: id, Cookie: cookie,
				Callchain: []uint64{user, code + 0x10000 + cookie*100, code + 0x20000 + cookie*10}})
		}
	})
	got := printed(t, file, Options{Fields: NewSelection()}, replay.Options{NoInline: true})
	comparePackaged(t, file, got)
}

// TestPrintsOffCPUDumpsAsPerfDoes prints the samples of blocked threads that perf's BPF programs write since perf 6.16.
func TestPrintsOffCPUDumpsAsPerfDoes(t *testing.T) {
	require.NewestPerf(t)
	event := &perfdata.Event{Name: "offcpu-time", IDs: []uint64{7}, Attr: perfdata.Attr{Type: 1, Config: 10, SamplePeriod: 1,
		Flags: perfdata.AttrSampleIDAll, SampleType: perfdata.SampleIdentifier | perfdata.SampleIP | perfdata.SampleTID | perfdata.SampleTime |
			perfdata.SampleCPU | perfdata.SamplePeriod | perfdata.SampleRaw}}
	file := writeRecording(t, event, func(w *perfdata.Writer, id perfdata.SampleID, code uint64) {
		for i := range uint64(20) {
			id.Time += 1000
			id.TID = 300 // the next one, on the CPU
			le := binary.LittleEndian
			raw := le.AppendUint32(le.AppendUint32(nil, 100), uint32(100+i%3))
			chain := []uint64{perfdata.ContextUser}
			for frame := range i % 5 {
				chain = append(chain, code+i*1000+frame*64)
			}
			for _, v := range append(append([]uint64{i * 1e6, uint64(len(chain))}, chain...), 42) {
				raw = le.AppendUint64(raw, v)
			}
			w.Write(perfdata.MiscUser, &perfdata.Sample{SampleID: id, IP: 1, Period: 1, Raw: append(raw, 0, 0, 0, 0)})
		}
	})
	got := printed(t, file, Options{Fields: NewSelection()}, replay.Options{NoInline: true})
	comparePackaged(t, file, got)
}
