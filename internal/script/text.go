package script

import (
	"slices"
	"strconv"
	"strings"

	"github.com/bperf/bperf/internal/bpfprog/disasm"
	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/replay"
	"github.com/bperf/bperf/internal/symbol/object"
	"github.com/bperf/bperf/internal/tracedata"
	"github.com/bperf/bperf/internal/typed"
	"github.com/bperf/bperf/perfdata"
)

// printer prints a recording.
type printer struct {
	replay  *replay.Replay
	reader  *perfdata.Reader
	o       Options
	fields  [kinds]field
	width   int // of the longest event name
	chains  bool
	arch    string
	resolve tracedata.Resolve
	files   object.Search             // where source files are
	outputs map[string][]typed.Column // output of BPF programs, by the name of the event
	chosen  []typed.Column            // output type for all events; nil without Options.Type

	warnings  []string // for the user: fields that are not printed
	traces    *tracedata.Data
	badTraces error // why traces lacks formats
	texts     []*text
}

// text prints records for one goroutine.
type text struct {
	*printer
	*replay.Resolver
	lines [kinds]texts // lines of callchains
	ends  [kinds]texts // text after an address
	insns [kinds]texts // instructions

	source *sourceText // with the field srccode

	stamps      stamps      // with Options.Dump
	samples     []uint64    // with Options.Dump: the number of samples of each event, by Event.Index
	disassemble disasm.Func // nil if bperf has no disassembler for the recording's architecture
}

func (p *printer) newText(r *replay.Resolver) replay.Handler {
	t := &text{printer: p, Resolver: r, source: newSourceText(p.reader, p.files)}
	p.texts = append(p.texts, t)
	switch p.arch {
	case "x86_64":
		t.disassemble, _ = disasm.For("amd64")
	case "aarch64":
		t.disassemble, _ = disasm.For("arm64")
	}
	return func(items []replay.Item, out []byte) []byte {
		for i := range items {
			if items[i].Raw {
				out = t.dump(&items[i], out)
			} else if items[i].Sample == nil {
				out = t.record(&items[i], out)
			} else {
				out = t.sample(&items[i], out)
			}
		}
		return out
	}
}

func (t *text) sample(item *replay.Item, out []byte) []byte {
	if t.o.Dump {
		out = t.place(item, out)
	}
	kind := kindOf(item.Event)
	fields := t.fields[kind]
	if fields == 0 || !t.wanted(item) {
		return out
	}
	s := item.Sample
	out = t.start(item, fields, &s.SampleID, out)
	if fields&fieldPeriod != 0 {
		out = append(appendUint(out, replay.Period(item), 10), ' ')
	}
	if fields&fieldEventName != 0 {
		name := "[unknown]"
		if item.Event != nil {
			name = item.Event.Name
		}
		out = append(appendRight(out, printable.Text(name), t.width), ": "...)
	}
	if fields&fieldFlags != 0 {
		out = append(out, "                        "...) // flags are for hardware traces, which bperf does not decode
	}
	if fields&fieldTrace != 0 && kind == kindTracepoint {
		out = t.trace(item, out)
	}
	if fields&fieldAddr != 0 {
		out = t.address(item, kind, out)
	}
	out = t.memory(s, fields, out)
	if fields&fieldCgroup != 0 {
		out = append(out, ' ')
		if item.Cgroup == "" {
			out = append(out, "unknown"...)
		}
		out = printable.Append(out, item.Cgroup)
	}
	if fields&fieldIP != 0 {
		out = t.code(item, kind, out)
	}
	if fields&fieldInterruptRegs != 0 {
		out = t.registers(&s.IntrRegs, out)
	}
	if fields&fieldUserRegs != 0 {
		out = t.registers(&s.UserRegs, out)
	}
	if fields&ofBranches != 0 {
		out = t.branches(item, fields, out)
	}
	if fields&fieldBPFOutput != 0 && isBPFOutput(item.Event) && !replay.IsOffCPUDump(item.Event) {
		if columns := t.outputColumns(item.Event); columns != nil {
			out = appendColumns(out, columns, s.Raw)
		} else {
			out = appendDump(out, s.Raw)
		}
	}
	if fields&(fieldInstruction|fieldInstructionLength|fieldDisassembly) != 0 {
		out = t.instruction(item, fields, out)
	}
	if fields&ofBlocks != 0 {
		out = t.blocks(item, fields, out)
	}
	out = append(t.sizes(s, fields, out), '\n')
	if fields&fieldSourceText != 0 {
		out = t.source.line(t.IP(item), 0, s.TID, out)
	}
	return out
}

// wanted reports whether a sample is in one of Options.Symbols or at one of Options.Addresses, and in one of Options.DSOs. Lists that are not
// given contain everything.
func (t *text) wanted(item *replay.Item) bool {
	functions, files := len(t.o.Symbols)+len(t.o.Addresses) > 0, len(t.o.DSOs) > 0
	if !functions && !files {
		return true
	}
	l := t.IP(item)
	at := func(address uint64) bool { return item.Sample.IP-address < max(t.o.Range, 1) } // is false below address
	return (!functions || l.Symbol != nil && slices.Contains(t.o.Symbols, l.Symbol.Name) || slices.ContainsFunc(t.o.Addresses, at)) &&
		(!files || l.DSO != nil && l.DSO.Named(t.o.DSOs))
}

// callchain returns the callchain of a sample up to the first of the functions Options.StopAt.
func (t *text) callchain(item *replay.Item) (chain []replay.Frame, ok bool) {
	chain, ok = t.Callchain(item)
	if len(t.o.StopAt) > 0 {
		last := slices.IndexFunc(chain, func(f replay.Frame) bool { return f.Symbol != nil && slices.Contains(t.o.StopAt, f.Symbol.Name) })
		if last >= 0 {
			chain = chain[:last+1]
		}
	}
	return chain, ok
}

// start prints the fields at the start of samples and of other records.
func (t *text) start(item *replay.Item, fields field, id *perfdata.SampleID, out []byte) []byte {
	if fields&fieldComm != 0 {
		if fields&fieldIP != 0 && t.chains && item.Event != nil && item.Event.Attr.SampleType.Has(perfdata.SampleCallchain) {
			out = printable.Append(out, item.Thread.Comm)
		} else {
			out = appendRight(out, printable.Text(item.Thread.Comm), 16)
		}
		out = append(out, ' ')
	}
	switch {
	case fields&fieldPID != 0 && fields&fieldTID != 0:
		out = append(appendInt(out, int64(id.PID), 5), '/')
		start := len(out)
		out = printable.AlignLeft(strconv.AppendInt(out, int64(id.TID), 10), start, 5)
		out = append(out, ' ')
	case fields&fieldPID != 0:
		out = append(appendInt(out, int64(id.PID), 5), ' ')
	case fields&fieldTID != 0:
		out = append(appendInt(out, int64(id.TID), 5), ' ')
	}
	if fields&fieldCPU != 0 {
		out = append(out, '[')
		out = appendZeros(out, uint64(id.CPU), 3)
		out = append(out, "] "...)
	}
	if fields&fieldMisc != 0 {
		out = appendMisc(out, item)
	}
	if fields&fieldTimeOfDay != 0 {
		out = append(t.appendTimeOfDay(out, id.Time), ' ')
	}
	if fields&fieldTime != 0 {
		out = t.time(item, id.Time, out)
	}
	return out
}

func (t *text) time(item *replay.Item, time uint64, out []byte) []byte {
	switch {
	case t.o.Relative:
		time -= min(time, t.replay.First())
	case t.o.Delta && item.Previous == 0:
		time = 0
	case t.o.Delta:
		time -= min(time, item.Previous) // Previous is later if this sample waited for the rest of its callchain
	}
	if t.o.Nanos {
		out = appendUint(out, time/1e9, 5)
		out = append(out, '.')
		return append(appendZeros(out, time%1e9, 9), ": "...)
	}
	start := len(out)
	out = strconv.AppendUint(out, time/1e9, 10)
	out = append(out, '.')
	out = appendZeros(out, time%1e9/1000, 6)
	return append(printable.AlignRight(out, start, 12), ": "...)
}

func appendMisc(out []byte, item *replay.Item) []byte {
	start := len(out)
	for _, mode := range []struct {
		bits perfdata.Misc
		name byte
	}{{perfdata.MiscKernel, 'K'}, {perfdata.MiscUser, 'U'}, {perfdata.MiscHypervisor, 'H'}, {perfdata.MiscGuestKernel, 'G'},
		{perfdata.MiscGuestUser, 'g'}} {
		if item.Misc&mode.bits == mode.bits {
			out = append(out, mode.name)
		}
	}
	switch item.Value.(type) {
	case *perfdata.Mmap, *perfdata.Mmap2:
		out = appendIf(out, item.Misc&perfdata.MiscMmapData != 0, 'M')
	case *perfdata.Comm:
		out = appendIf(out, item.Misc&perfdata.MiscCommExec != 0, 'E')
	case *perfdata.Switch, *perfdata.SwitchCPUWide:
		out = appendIf(out, item.Misc&perfdata.MiscSwitchOut != 0, 'S')
		out = appendIf(out, item.Misc&perfdata.MiscSwitchOut != 0 && item.Misc&perfdata.MiscSwitchOutPreempt != 0, 'p')
	}
	return printable.AlignLeft(out, start, 6)
}

func appendIf(out []byte, is bool, c byte) []byte {
	if is {
		return append(out, c)
	}
	return out
}

// trace prints the fields that a tracepoint recorded.
func (t *text) trace(item *replay.Item, out []byte) []byte {
	if f := t.traces.Format(item.Event.Attr.Config); f != nil {
		all := f.AppendText(out, item.Sample.Raw, t.resolve)
		return printable.Append(all[:len(out)], all[len(out):])
	}
	return out
}

// code prints the callchain, or the instruction pointer.
func (t *text) code(item *replay.Item, kind kind, out []byte) []byte {
	if t.chains {
		if chain, ok := t.callchain(item); ok {
			out = append(out, '\n')
			for i := range chain {
				out = t.frame(&chain[i], kind, out)
			}
			return out
		}
	}
	ip := item.Sample.IP
	l := t.IP(item)
	out = appendHex(append(out, ' '), ip, 16)
	if end := t.ends[kind].get(l.Index); end != nil {
		return append(out, end...)
	}
	start := len(out)
	out = t.symbolAndDSO(exactly(l), t.fields[kind], out)
	out = t.sourceLine(exactly(l), t.fields[kind], out)
	t.ends[kind].put(l.Index, out[start:])
	return out
}

// frame prints a line of a callchain, and a line for each function that is inlined there.
func (t *text) frame(f *replay.Frame, kind kind, out []byte) []byte {
	if line := t.lines[kind].get(f.Number()); line != nil {
		return append(out, line...)
	}
	start := len(out)
	fields, address := t.fields[kind], f.Address()
	for i := range f.Source.Inlined {
		in := &f.Source.Inlined[i]
		out = appendHex(append(out, '\t'), address, 16)
		if fields&fieldSymbol != 0 {
			out = printable.Append(append(out, ' '), in.Function)
			if fields&fieldSymbolOffset != 0 && f.Symbol != nil {
				out = strconv.AppendUint(append(out, "+0x"...), f.Offset(), 16)
			}
		}
		if fields&fieldSourceLine != 0 {
			out = t.appendSourceLine(append(out, "\n  "...), in.File, int(in.Line))
		}
		out = append(out, " (inlined)\n"...)
	}
	out = appendHex(append(out, '\t'), address, 16)
	out = t.symbolAndDSO(f, fields, out)
	out = append(t.sourceLine(f, fields, out), '\n')
	t.lines[kind].put(f.Number(), out[start:])
	return out
}

// exactly returns the frame of an address that is not a return address.
func exactly(l *replay.Location) *replay.Frame { return &replay.Frame{Location: l} }

// symbolAndDSO prints the symbol and the DSO of an address.
func (t *text) symbolAndDSO(f *replay.Frame, fields field, out []byte) []byte {
	if fields&fieldSymbol != 0 {
		out = appendSymbol(append(out, ' '), f, fields&fieldSymbolOffset != 0)
	}
	if fields&fieldDSO != 0 {
		out = append(out, " ("...)
		out = append(appendDSO(out, f, fields), ')')
	}
	return out
}

func appendSymbol(out []byte, f *replay.Frame, offset bool) []byte {
	if f.Symbol == nil {
		return append(out, "[unknown]"...)
	}
	out = printable.Append(out, f.Symbol.Name)
	if offset {
		out = strconv.AppendUint(append(out, "+0x"...), f.Offset(), 16)
	}
	return out
}

func appendDSO(out []byte, f *replay.Frame, fields field) []byte {
	if f.DSO == nil {
		return append(out, "[unknown]"...)
	}
	out = printable.Append(out, f.DSO.Name)
	if fields&fieldDSOOffset != 0 {
		out = strconv.AppendUint(append(out, "+0x"...), f.Address(), 16)
	}
	return out
}

func (t *text) sourceLine(f *replay.Frame, fields field, out []byte) []byte {
	if fields&fieldSourceLine == 0 || f.DSO == nil {
		return out
	}
	return t.lineOf(f, append(out, "\n  "...))
}

// lineOf prints the source line of a frame that has a DSO, or else its address.
func (t *text) lineOf(f *replay.Frame, out []byte) []byte {
	if f.Source.File == "" {
		out = printable.Append(out, f.DSO.Short)
		return strconv.AppendUint(append(out, "[ "...), f.Address(), 16)
	}
	return t.appendSourceLine(out, f.Source.File, f.Source.Line)
}

func (t *text) appendSourceLine(out []byte, file string, line int) []byte {
	if !t.o.FullPaths {
		file = file[strings.LastIndexByte(file, '/')+1:]
	}
	return strconv.AppendInt(append(printable.Append(out, file), ':'), int64(line), 10)
}

// address prints the data address. If it is in the memory of the sampled thread, it also prints the symbol and the DSO.
func (t *text) address(item *replay.Item, kind kind, out []byte) []byte {
	out = appendHex(out, item.Sample.Addr, 16)
	if !addressesMemory(item.Event) || t.fields[kind]&(fieldSymbol|fieldDSO) == 0 {
		return out
	}
	return t.symbolAndDSO(exactly(t.Data(item)), t.fields[kind], out)
}
