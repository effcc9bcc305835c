package script

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bperf/bperf/perfdata"
)

// Field is one of the things that are printed of a sample.
type Field uint64

// The fields, in the order in which they are listed.
const (
	Comm Field = 1 << iota
	TID
	PID
	Time
	CPU
	EventName
	Trace
	IP
	Symbol
	DSO
	Addr
	SymbolOffset
	SourceLine
	Period
	InterruptRegs
	UserRegs
	Branches
	BranchSymbols
	BranchOffsets
	DataSource
	Weight
	BPFOutput
	PhysAddr
	DataPageSize
	CodePageSize
	InstructionLatency
	RetireLatency
	Misc
	TimeOfDay
	Cgroup
	DSOOffset
	Flags
	Instruction
	InstructionLength
	CallIndent
	Synthetic
)

var fieldNames = []struct {
	name  string
	field Field
}{
	{"comm", Comm}, {"tid", TID}, {"pid", PID}, {"time", Time}, {"cpu", CPU}, {"event", EventName}, {"trace", Trace}, {"ip", IP},
	{"sym", Symbol}, {"dso", DSO}, {"addr", Addr}, {"symoff", SymbolOffset}, {"srcline", SourceLine}, {"period", Period},
	{"iregs", InterruptRegs}, {"uregs", UserRegs}, {"brstack", Branches}, {"brstacksym", BranchSymbols}, {"brstackoff", BranchOffsets},
	{"data_src", DataSource}, {"weight", Weight}, {"bpf-output", BPFOutput}, {"phys_addr", PhysAddr}, {"data_page_size", DataPageSize},
	{"code_page_size", CodePageSize}, {"ins_lat", InstructionLatency}, {"retire_lat", RetireLatency}, {"misc", Misc}, {"tod", TimeOfDay},
	{"cgroup", Cgroup}, {"dsoff", DSOOffset}, {"flags", Flags},
	{"insn", Instruction}, {"insnlen", InstructionLength}, {"callindent", CallIndent}, {"synth", Synthetic},
}

// FieldNames lists the names of the fields.
func FieldNames() []string {
	var names []string
	for _, f := range fieldNames {
		names = append(names, f.name)
	}
	return names
}

// Kind is what sort of event a sample is of: the Type of its attribute, where those of PMUs are one. Each has its own fields.
type Kind int

// The kinds.
const (
	Hardware Kind = iota
	Software
	Tracepoint
	HardwareCache
	Raw
	Breakpoint
	Synthesized
	Other
	kinds
)

// kindNames are those that are put in front of fields. Those without one have the fields of all kinds.
var kindNames = map[string]Kind{"hw": Hardware, "sw": Software, "trace": Tracepoint, "raw": Raw, "break": Breakpoint, "synth": Synthesized}

var longKindNames = [kinds]string{"hardware", "software", "tracepoint", "hardware-cache", "raw", "breakpoint", "synth", "other"}

// typeSynthesized is what perf gives events that it makes of hardware traces: PERF_TYPE_SYNTH.
const typeSynthesized = 1 << 31

// kindOf tells the kind of an event.
func kindOf(e *perfdata.Event) Kind {
	switch {
	case e == nil:
		return Other
	case e.Attr.Type == typeSynthesized:
		return Synthesized
	case e.Attr.Type <= uint32(Breakpoint):
		return Kind(e.Attr.Type)
	}
	return Other
}

const (
	usual   = Comm | TID | CPU | Time | EventName | IP | Symbol | SymbolOffset | DSO | Period
	ofChain = IP | Symbol | SymbolOffset | DSO
)

// Selection is what is printed of samples of each kind.
type Selection struct {
	fields [kinds]Field
	asked  [kinds]Field // for by the user: a recording must have them
	set    [kinds]bool  // by the user
	Notes  []string     // what was ignored, for the user
}

// NewSelection is what is printed if nothing is asked for.
func NewSelection() *Selection {
	s := &Selection{}
	for k := range s.fields {
		s.fields[k] = usual
	}
	s.fields[Software] |= BPFOutput
	s.fields[Tracepoint] = Comm | TID | CPU | Time | EventName | Trace
	s.fields[Raw] |= Addr | DataSource | Weight | PhysAddr | DataPageSize | CodePageSize | InstructionLatency
	s.fields[Synthesized] &^= Period
	return s
}

// invalid are fields that events of a kind cannot have.
func invalid(k Kind) Field {
	switch k {
	case Tracepoint:
		return 0
	case Software:
		return Trace
	}
	return Trace | BPFOutput
}

// Parse takes a list of fields: of all kinds of events, or behind hw:, sw:, trace:, raw:, break: or synth: of one. Where they have + or - in
// front, they are added or taken away.
func (s *Selection) Parse(text string) error {
	which := []Kind{Hardware, Software, Tracepoint, HardwareCache, Raw, Breakpoint, Synthesized, Other}
	list := text
	one := false
	if name, rest, ok := strings.Cut(text, ":"); ok {
		k, known := kindNames[name]
		if !known {
			return fmt.Errorf("fields %q: %q is no kind of events; they are hw, sw, trace, raw, break and synth", text, name)
		}
		which, list, one = []Kind{k}, rest, true
	} else if text == "" {
		return fmt.Errorf("fields: none are named; to print nothing of a kind of events: sw: or another")
	}
	changes := strings.ContainsAny(list, "+-") && strings.ContainsAny(list[:1], "+-")
	if !changes {
		for _, k := range which {
			s.fields[k], s.asked[k], s.set[k] = 0, 0, true
		}
	}
	for word := range strings.SplitSeq(list, ",") {
		if word == "" {
			continue
		}
		sign := word[0]
		signed := sign == '+' || sign == '-'
		if signed != changes {
			return fmt.Errorf("fields %q: %s: either all fields have + or - in front, or none", text, word)
		}
		field, err := fieldOf(strings.TrimLeft(word, "+-"))
		if err != nil {
			return fmt.Errorf("fields %q: %w", text, err)
		}
		for _, k := range which {
			if invalid(k)&field != 0 {
				if one {
					return fmt.Errorf("fields %q: %s events have no %q", text, longKindNames[k], word)
				}
				if sign != '-' && sign != '+' {
					s.Notes = append(s.Notes, fmt.Sprintf("'%s' not valid for %s events. Ignoring.", word, longKindNames[k]))
				}
				continue
			}
			if sign == '-' {
				s.fields[k] &^= field
				s.asked[k] &^= field
				continue
			}
			s.fields[k] |= field
			s.asked[k] |= field
			s.set[k] = true
		}
	}
	return nil
}

func fieldOf(name string) (Field, error) {
	i := slices.IndexFunc(fieldNames, func(f struct {
		name  string
		field Field
	}) bool {
		return f.name == name
	})
	if i < 0 {
		return 0, fmt.Errorf("there is no field %q; they are %s", name, strings.Join(FieldNames(), ","))
	}
	return fieldNames[i].field, nil
}

// needs are the parts of a sample that fields are made of.
var needs = []struct {
	field Field
	parts perfdata.SampleType // one of them
	name  string
}{
	{IP, perfdata.SampleIP, "IP"},
	{Addr, perfdata.SampleAddr, "ADDR"},
	{DataSource, perfdata.SampleDataSrc, "DATA_SRC"},
	{Weight, perfdata.SampleWeight | perfdata.SampleWeightStruct, "WEIGHT"},
	{PID | TID, perfdata.SampleTID, "TID"},
	{Time, perfdata.SampleTime, "TIME"},
	{CPU, perfdata.SampleCPU, "CPU"},
	{InterruptRegs, perfdata.SampleRegsIntr, "IREGS"},
	{UserRegs, perfdata.SampleRegsUser, "UREGS"},
	{Branches | BranchSymbols | BranchOffsets, perfdata.SampleBranchStack, "BRANCH_STACK"},
	{PhysAddr, perfdata.SamplePhysAddr, "PHYS_ADDR"},
	{DataPageSize, perfdata.SampleDataPageSize, "DATA_PAGE_SIZE"},
	{CodePageSize, perfdata.SampleCodePageSize, "CODE_PAGE_SIZE"},
	{InstructionLatency, perfdata.SampleWeightStruct, "WEIGHT_STRUCT"},
	{RetireLatency, perfdata.SampleWeightStruct, "WEIGHT_STRUCT"},
	{Cgroup, perfdata.SampleCgroup, "CGROUP"},
}

// Fit takes away what an event's samples do not have, and is an error if that was asked for. As perf does, it takes it away for all events of the
// kind.
func (s *Selection) Fit(e *perfdata.Event) error {
	k := kindOf(e)
	for _, n := range needs {
		lacking := s.fields[k] & n.field
		if lacking == 0 || e.Attr.SampleType&n.parts != 0 {
			continue
		}
		if s.asked[k]&lacking != 0 {
			return fmt.Errorf("samples of %s have no %s, so %s cannot be printed; record it, or leave the field out with -F",
				e.Name, n.name, fieldList(s.asked[k]&lacking))
		}
		s.fields[k] &^= lacking
	}
	fields, asked := s.fields[k], s.asked[k]
	address := e.Attr.SampleType&(perfdata.SampleIP|perfdata.SampleAddr) != 0
	switch {
	case asked&Symbol != 0 && !address:
		return fmt.Errorf("samples of %s have no address whose symbol could be printed", e.Name)
	case asked&DSO != 0 && !address:
		return fmt.Errorf("samples of %s have no address whose file could be printed", e.Name)
	case asked&SymbolOffset != 0 && fields&Symbol == 0:
		return fmt.Errorf("fields: symoff is the offset in the symbol, which is not among them; add sym")
	case asked&SourceLine != 0 && fields&IP == 0:
		return fmt.Errorf("fields: srcline is that of the instruction pointer, which is not among them; add ip")
	}
	return nil
}

func fieldList(fields Field) string {
	var names []string
	for _, f := range fieldNames {
		if f.field&fields != 0 {
			names = append(names, f.name)
		}
	}
	return strings.Join(names, ",")
}

// WithChains adds to tracepoints what is printed of callchains, if nobody asked for something else.
func (s *Selection) WithChains() {
	if !s.set[Tracepoint] {
		s.fields[Tracepoint] |= ofChain
	}
}

// Lines reports whether source lines are printed of any event.
func (s *Selection) Lines() bool {
	return slices.ContainsFunc(s.fields[:], func(f Field) bool { return f&SourceLine != 0 })
}
