package script

import (
	"encoding/hex"
	"fmt"
	"io"
	"strconv"

	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/replay"
	"github.com/bperf/bperf/perfdata"
)

// pipeHeader is the size of the header of a pipe. perf counts a pipe's bytes from its end.
const pipeHeader = 16

// dump prints a record as perf's -D does: its bytes, and a line or more with what they mean.
func (t *text) dump(item *replay.Item, out []byte) []byte {
	offset, name := item.Offset, t.o.Input
	if t.reader.Piped() {
		offset, name = offset-pipeHeader, "pipe"
	}
	at := alternate(uint64(offset))
	out = fmt.Appendf(out, "\n%s@%s [%#x]: event: %d\n.\n. ... raw event: size %d bytes\n", at, printable.Text(name), len(item.Record.Raw), item.Type,
		len(item.Record.Raw))
	out = append(appendBytes(out, item.Record.Raw), '\n')
	out = fmt.Appendf(t.stamp(item, out), "%s [%#x]: PERF_RECORD_%s", at, len(item.Record.Raw), item.Type)
	switch v := item.Value.(type) {
	case *perfdata.Sample:
		return t.dumpSample(item, v, out)
	case *perfdata.CallchainDeferred:
		out = fmt.Appendf(out, "(IP, %#x): %d/%d: %s\n", uint16(item.Misc), v.PID, v.TID, alternate(v.Cookie))
		return appendCallchain(out, v.Callchain)
	}
	if item.Type >= perfdata.RecordHeaderAttr {
		return t.dumpOwn(item, out)
	}
	return t.dumpKernel(item, out)
}

// appendBytes prints bytes in lines of 16.
func appendBytes(out, raw []byte) []byte {
	const each = 16
	for at := 0; at < len(raw); at += each {
		out = appendLine(fmt.Appendf(out, ".  %04x: ", at), raw[at:min(at+each, len(raw))], each)
	}
	return out
}

// appendLine ends a line of a dump with its bytes, in hexadecimal and as letters. It fills the place of the bytes that are missing to a
// number of them with blanks.
func appendLine(out, line []byte, each int) []byte {
	for i := range each {
		if i < len(line) {
			out = hex.AppendEncode(append(out, ' '), line[i:i+1])
		} else {
			out = append(out, "   "...)
		}
	}
	out = append(out, "  "...)
	for i := range each {
		switch {
		case i >= len(line):
			out = append(out, ' ')
		case line[i] >= ' ' && line[i] <= '~':
			out = append(out, line[i])
		default:
			out = append(out, '.')
		}
	}
	return append(out, '\n')
}

// stamp prints the CPU and the time of a record, if the samples of any event have them. They are -1 if those of the record's own event do not
// have them, and 0 for records that perf itself writes.
func (t *text) stamp(item *replay.Item, out []byte) []byte {
	events := t.reader.Events()
	if trailers := len(events) > 0 && events[0].Attr.Has(perfdata.AttrSampleIDAll); !trailers && item.Type != perfdata.RecordSample {
		return append(out, "-1 -1 "...)
	}
	all := t.stamps.of(events)
	cpu, time := uint32(0), uint64(0)
	if item.Type < perfdata.RecordHeaderAttr {
		cpu, time = ^cpu, ^time
		id := replay.Trailer(item.Value)
		if s, is := item.Value.(*perfdata.Sample); is {
			id = &s.SampleID
		}
		if id != nil && id.Fields.Has(perfdata.SampleCPU) {
			cpu = id.CPU
		}
		if id != nil && id.Fields.Has(perfdata.SampleTime) {
			time = id.Time
		}
	}
	if all.Has(perfdata.SampleCPU) {
		out = append(strconv.AppendUint(out, uint64(cpu), 10), ' ')
	}
	if all.Has(perfdata.SampleTime) {
		out = append(strconv.AppendUint(out, time, 10), ' ')
	}
	return out
}

// stamps are the sample types of all events together. They are kept, because a recording can have many events.
type stamps struct {
	events []*perfdata.Event
	all    perfdata.SampleType
}

func (s *stamps) of(events []*perfdata.Event) perfdata.SampleType {
	if len(events) == 0 || len(s.events) == len(events) && &s.events[0] == &events[0] {
		return s.all
	}
	s.events, s.all = events, 0
	for _, e := range events {
		s.all |= e.Attr.SampleType
	}
	return s.all
}

// dumpKernel prints what a record of the kernel says. Some lines end where the next record begins, as in perf.
func (t *text) dumpKernel(item *replay.Item, out []byte) []byte {
	switch v := item.Value.(type) {
	case *perfdata.Lost:
		return fmt.Appendf(out, ": id:%d: lost:%d\n", v.EventID, v.Records)
	case *perfdata.LostSamples:
		filtered := ""
		if v.BPF {
			filtered = " (BPF)"
		}
		return fmt.Appendf(out, ": id:%d: lost samples :%d%s\n", v.ID, v.Samples, filtered)
	case *perfdata.Read:
		return t.dumpRead(item, v, out)
	case *perfdata.TextPoke:
		out = fmt.Appendf(out, " %x ", v.Addr)
		if l := t.Resolve(item, perfdata.MiscKernel, v.Addr); l.Symbol != nil {
			out = appendSymbol(out, exactly(l), true)
		}
		return fmt.Appendf(out, " old len %d new len %d\n            Old bytes: % x\n            New bytes: % x\n", len(v.Old), len(v.New), v.Old, v.New)
	case *perfdata.Aux:
		flags := ""
		for i, name := range []string{"T", "O", "P", "C"} { // PERF_AUX_FLAG_TRUNCATED and the following
			if v.Flags>>i&1 != 0 {
				flags += name
			}
		}
		return fmt.Appendf(out, " offset: %s size: %s flags: %s [%s]\n", alternate(v.Offset), alternate(v.Size), alternate(v.Flags), flags)
	case *perfdata.ITraceStart:
		return fmt.Appendf(out, " pid: %d tid: %d\n", v.PID, v.TID)
	case *perfdata.AuxOutputHWID:
		return fmt.Appendf(out, " hw_id: %s\n", alternate(v.HWID))
	}
	return t.details(item, out)
}

func (t *text) dumpRead(item *replay.Item, v *perfdata.Read, out []byte) []byte {
	for _, reading := range v.Readings.Values {
		out = fmt.Appendf(out, ": %d %d %s %d\n", v.PID, v.TID, printable.Text(item.Event.Name), reading.Value)
		if v.Readings.Format&perfdata.ReadTotalTimeEnabled != 0 {
			out = fmt.Appendf(out, "... time enabled : %d\n", v.Readings.Enabled)
		}
		if v.Readings.Format&perfdata.ReadTotalTimeRunning != 0 {
			out = fmt.Appendf(out, "... time running : %d\n", v.Readings.Running)
		}
		if v.Readings.Format&perfdata.ReadID != 0 {
			out = fmt.Appendf(out, "... id           : %d\n", reading.ID)
		}
		if v.Readings.Format&perfdata.ReadLost != 0 {
			out = fmt.Appendf(out, "... lost         : %d\n", reading.Lost)
		}
	}
	return append(out, unhandled...)
}

// place prints the thread of a sample, and the file that its instruction pointer is in.
func (t *text) place(item *replay.Item, out []byte) []byte {
	t.count(item.Event)
	file := "<not found>"
	mode := item.Misc.CPUMode()
	if l := t.IP(item); l.DSO != nil {
		file = l.DSO.Name
	} else if mode != perfdata.MiscKernel && mode != perfdata.MiscUser {
		file = "[hypervisor]"
	}
	return fmt.Appendf(out, " ... thread: %s:%d\n ...... dso: %s\n", printable.Text(item.Thread.Comm), item.Thread.TID, printable.Text(file))
}

// count counts the samples of an event.
func (t *text) count(e *perfdata.Event) {
	if e == nil {
		return
	}
	for len(t.samples) <= e.Index {
		t.samples = append(t.samples, 0)
	}
	t.samples[e.Index]++
}

// Dump prints all records of a recording with their bytes, but not what Print prints of samples. It returns the number of samples of each
// event, by Event.Index.
func Dump(w io.Writer, reader *perfdata.Reader, o Options, ro replay.Options) (samples []uint64, stats replay.Stats, err error) {
	o.Dump, o.Fields = true, &Selection{}
	p, stats, err := run(w, reader, o, ro)
	samples = make([]uint64, len(reader.Events()))
	for _, t := range p.texts {
		for i, n := range t.samples {
			samples[i] += n
		}
	}
	return samples, stats, err
}
