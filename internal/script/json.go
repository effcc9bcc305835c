package script

import (
	"encoding/hex"
	"encoding/json"
	"strconv"

	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/replay"
	"github.com/bperf/bperf/perfdata"
)

// sampleJSON is a sample as JSON. It has a field for each thing that a recording can have of a sample.
type sampleJSON struct {
	Comm      string            `json:"comm"`                          // name of the thread
	PID       *int32            `json:"pid,omitempty"`                 // absent if the recording has none
	TID       *int32            `json:"tid,omitempty"`                 // absent if the recording has none
	CPU       *uint32           `json:"cpu,omitempty"`                 // absent if the recording has none
	Time      *uint64           `json:"time_ns,omitempty"`             // of the clock of the recording; absent if the recording has none
	Event     string            `json:"event"`                         // its name
	Period    uint64            `json:"period"`                        // events that the sample stands for
	Mode      string            `json:"mode"`                          // kernel, user, hypervisor, guest kernel, guest user or unknown
	IP        *frameJSON        `json:"ip,omitempty"`                  // where the sample was taken; absent if the recording has none
	Callchain []frameJSON       `json:"callchain,omitempty"`           // innermost first; absent without callchains
	Addr      *frameJSON        `json:"addr,omitempty"`                // that the event was about, such as that of data; absent if the recording has none
	Trace     string            `json:"trace,omitempty"`               // of a tracepoint, as the kernel prints it; absent for other events
	Fields    map[string]string `json:"fields,omitempty"`              // of a tracepoint; absent for other events
	Raw       string            `json:"raw,omitempty"`                 // in hexadecimal; absent without raw data
	Output    map[string]any    `json:"output,omitempty"`              // of a BPF program, by the members of its structure; absent for other events
	Branches  []branchJSON      `json:"branches,omitempty"`            // the last one first; absent without a branch stack
	UserRegs  map[string]string `json:"user_registers,omitempty"`      // by their names, in hexadecimal; absent if the recording has none
	IntrRegs  map[string]string `json:"interrupt_registers,omitempty"` // by their names, in hexadecimal; absent if the recording has none
	Cgroup    string            `json:"cgroup,omitempty"`              // its path; absent if the recording has none
	Weight    uint64            `json:"weight,omitempty"`              // as the PMU measures it; 0 if the recording has none
	DataSrc   string            `json:"data_src,omitempty"`            // as perf script prints it; absent if the recording has none
	PhysAddr  string            `json:"phys_addr,omitempty"`           // in hexadecimal; absent if the recording has none
	DataPage  uint64            `json:"data_page_size,omitempty"`      // bytes; 0 if the recording has none
	CodePage  uint64            `json:"code_page_size,omitempty"`      // bytes; 0 if the recording has none
	Readings  []readingJSON     `json:"readings,omitempty"`            // of the events of the group; absent if the recording has none
}

// frameJSON is an address with its symbol, file and source line.
type frameJSON struct {
	Address string        `json:"address"`               // in hexadecimal
	Symbol  string        `json:"symbol,omitempty"`      // absent if unknown
	Offset  *uint64       `json:"offset,omitempty"`      // bytes from the start of the symbol; absent without a symbol
	DSO     string        `json:"dso,omitempty"`         // file, kernel module or BPF program; absent if unknown
	BuildID string        `json:"build_id,omitempty"`    // in hexadecimal; absent if unknown
	Program uint32        `json:"bpf_program,omitempty"` // ID; absent for other code
	Kind    string        `json:"kind"`                  // of code, or data
	File    string        `json:"file,omitempty"`        // of the source; absent if unknown
	Line    int           `json:"line,omitempty"`        // in the file; absent if unknown
	Inlined []inlinedJSON `json:"inlined,omitempty"`     // functions that are inlined there, innermost first; absent if there are none
}

type inlinedJSON struct {
	Function string `json:"function"`
	File     string `json:"file,omitempty"` // of the source; absent if unknown
	Line     int    `json:"line,omitempty"` // in the file; absent if unknown
}

type branchJSON struct {
	From         frameJSON `json:"from"` // the branch
	To           frameJSON `json:"to"`   // its target
	Mispredicted bool      `json:"mispredicted,omitempty"`
	Predicted    bool      `json:"predicted,omitempty"`
	InTX         bool      `json:"in_tx,omitempty"`  // in a transaction
	Abort        bool      `json:"abort,omitempty"`  // of a transaction
	Cycles       uint16    `json:"cycles,omitempty"` // since the previous branch; absent if the CPU does not count them
	Type         string    `json:"type,omitempty"`   // such as CALL; absent if unknown
}

type readingJSON struct {
	ID    uint64 `json:"id,omitempty"` // ID of the event in the recording; absent if the recording has none
	Value uint64 `json:"value"`        // of the event
}

// newJSON returns a handler that prints each sample as a JSON object on one line. It skips all other records.
func (p *printer) newJSON(r *replay.Resolver) replay.Handler {
	t := &text{printer: p, Resolver: r}
	return func(items []replay.Item, out []byte) []byte {
		for i := range items {
			if items[i].Sample != nil && t.wanted(&items[i]) {
				out = t.object(&items[i], out)
			}
		}
		return out
	}
}

var modes = map[perfdata.Misc]string{perfdata.MiscKernel: "kernel", perfdata.MiscUser: "user", perfdata.MiscHypervisor: "hypervisor",
	perfdata.MiscGuestKernel: "guest kernel", perfdata.MiscGuestUser: "guest user", perfdata.MiscUnknown: "unknown"}

func (t *text) object(item *replay.Item, out []byte) []byte {
	s := item.Sample
	o := sampleJSON{Comm: item.Thread.Comm, Period: replay.Period(item), Mode: modes[item.Misc.CPUMode()], Cgroup: item.Cgroup,
		DataPage: s.DataPageSize, CodePage: s.CodePageSize, UserRegs: t.registerMap(&s.UserRegs), IntrRegs: t.registerMap(&s.IntrRegs)}
	if item.Event != nil {
		o.Event = item.Event.Name
	}
	if s.Fields.Has(perfdata.SampleTID) {
		o.PID, o.TID = &s.PID, &s.TID
	}
	if s.Fields.Has(perfdata.SampleCPU) {
		o.CPU = &s.CPU
	}
	if s.Fields.Has(perfdata.SampleTime) {
		o.Time = &s.Time
	}
	if s.Fields.Has(perfdata.SampleIP) {
		f := newFrameJSON(replay.Frame{IP: s.IP, Location: t.IP(item)})
		o.IP = &f
	}
	if chain, ok := t.callchain(item); ok && !t.o.NoChains {
		for _, f := range chain {
			o.Callchain = append(o.Callchain, newFrameJSON(f))
		}
	}
	if s.Fields.Has(perfdata.SampleAddr) {
		f := frameJSON{Address: address(s.Addr), Kind: "data"}
		if addressesMemory(item.Event) {
			f = newFrameJSON(replay.Frame{IP: s.Addr, Location: t.Data(item)})
		}
		o.Addr = &f
	}
	t.rawJSON(item, &o)
	for i := range s.Branches {
		o.Branches = append(o.Branches, t.branchJSON(item, &s.Branches[i]))
	}
	if s.Fields.Has(perfdata.SampleDataSrc) {
		o.DataSrc = string(appendDataSource(nil, s.DataSource))
	}
	if s.Fields.Has(perfdata.SamplePhysAddr) {
		o.PhysAddr = address(s.PhysAddr)
	}
	o.Weight = uint64(s.Weight)
	if s.Fields.Has(perfdata.SampleWeightStruct) {
		o.Weight = uint64(s.Weight.Var1())
	}
	for _, r := range s.Read.Values {
		o.Readings = append(o.Readings, readingJSON{r.ID, r.Value})
	}
	line, err := json.Marshal(&o)
	if err != nil {
		panic(err) // JSON can represent all of its fields
	}
	return append(append(out, printable.JSON(line)...), '\n')
}

func address(v uint64) string { return "0x" + strconv.FormatUint(v, 16) }

func newFrameJSON(f replay.Frame) frameJSON {
	object := frameJSON{Address: address(f.IP), Kind: f.Kind.String(), File: f.Source.File, Line: f.Source.Line}
	if f.DSO != nil {
		object.DSO, object.BuildID, object.Program = f.DSO.Name, f.DSO.HexBuildID(), f.DSO.Program
	}
	if f.Symbol != nil {
		offset := f.Offset()
		object.Symbol, object.Offset = f.Symbol.Name, &offset
	}
	object.Inlined = inlined(f.Source.Inlined)
	return object
}

func inlined(frames []replay.Inlined) []inlinedJSON {
	var all []inlinedJSON
	for _, f := range frames {
		all = append(all, inlinedJSON{f.Function, f.File, int(f.Line)})
	}
	return all
}

func (t *text) rawJSON(item *replay.Item, o *sampleJSON) {
	s := item.Sample
	if !s.Fields.Has(perfdata.SampleRaw) {
		return
	}
	o.Raw = hex.EncodeToString(s.Raw)
	if isBPFOutput(item.Event) {
		o.Output = outputObject(t.outputColumns(item.Event), s.Raw)
	}
	if kindOf(item.Event) != kindTracepoint {
		return
	}
	f := t.traces.Format(item.Event.Attr.Config)
	if f == nil {
		return
	}
	o.Trace = string(f.AppendText(nil, s.Raw, t.resolve))
	o.Fields = map[string]string{}
	for i := range f.Fields {
		if b, ok := f.Bytes(s.Raw, &f.Fields[i]); ok {
			o.Fields[f.Fields[i].Name] = string(f.AppendValue(nil, &f.Fields[i], b))
		}
	}
}

func (t *text) branchJSON(item *replay.Item, b *perfdata.Branch) branchJSON {
	end := func(addr uint64) frameJSON {
		return newFrameJSON(replay.Frame{IP: addr, Location: t.Branch(item, addr)})
	}
	return branchJSON{From: end(b.From), To: end(b.To), Mispredicted: b.Flags.Mispredicted(), Predicted: b.Flags.Predicted(), InTX: b.Flags.InTX(),
		Abort: b.Flags.Abort(), Cycles: b.Flags.Cycles(), Type: branchTypes[b.Flags.Type()]}
}

func (t *text) registerMap(r *perfdata.Registers) map[string]string {
	if len(r.Values) == 0 {
		return nil
	}
	all := map[string]string{}
	for number := range 64 {
		if v, ok := r.Get(number); ok {
			all[perfdata.RegisterName(t.arch, number)] = address(v)
		}
	}
	return all
}
