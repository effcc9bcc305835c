package script

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bperf/bperf/perfdata"
)

// field is a set of fields: the parts of a sample that can be printed.
type field uint64

// The fields, in the order in which they are listed.
const (
	fieldComm field = 1 << iota
	fieldTID
	fieldPID
	fieldTime
	fieldCPU
	fieldEventName
	fieldTrace
	fieldIP
	fieldSymbol
	fieldDSO
	fieldAddr
	fieldSymbolOffset
	fieldSourceLine
	fieldSourceText
	fieldPeriod
	fieldInterruptRegs
	fieldUserRegs
	fieldBranches
	fieldBranchSymbols
	fieldBranchOffsets
	fieldDataSource
	fieldWeight
	fieldBPFOutput
	fieldPhysAddr
	fieldDataPageSize
	fieldCodePageSize
	fieldInstructionLatency
	fieldRetireLatency
	fieldMisc
	fieldTimeOfDay
	fieldCgroup
	fieldDSOOffset
	fieldFlags
	fieldInstruction
	fieldInstructionLength
	fieldDisassembly
	fieldBlocks
	fieldBlockLengths
	// perf prints these for hardware traces, which bperf does not decode, and for what perf inject merges from guests. They are accepted for
	// perf's command lines and print nothing.
	fieldCallIndent
	fieldSynthetic
	fieldIPC
	fieldMachinePID
	fieldVCPU
)

var fieldNames = []struct {
	name  string
	field field
}{
	{"comm", fieldComm}, {"tid", fieldTID}, {"pid", fieldPID}, {"time", fieldTime}, {"cpu", fieldCPU}, {"event", fieldEventName}, {"trace", fieldTrace}, {"ip", fieldIP},
	{"sym", fieldSymbol}, {"dso", fieldDSO}, {"addr", fieldAddr}, {"symoff", fieldSymbolOffset}, {"srcline", fieldSourceLine}, {"srccode", fieldSourceText}, {"period", fieldPeriod},
	{"iregs", fieldInterruptRegs}, {"uregs", fieldUserRegs}, {"brstack", fieldBranches}, {"brstacksym", fieldBranchSymbols}, {"brstackoff", fieldBranchOffsets},
	{"data_src", fieldDataSource}, {"weight", fieldWeight}, {"bpf-output", fieldBPFOutput}, {"phys_addr", fieldPhysAddr}, {"data_page_size", fieldDataPageSize},
	{"code_page_size", fieldCodePageSize}, {"ins_lat", fieldInstructionLatency}, {"retire_lat", fieldRetireLatency}, {"misc", fieldMisc}, {"tod", fieldTimeOfDay},
	{"cgroup", fieldCgroup}, {"dsoff", fieldDSOOffset}, {"flags", fieldFlags},
	{"insn", fieldInstruction}, {"insnlen", fieldInstructionLength}, {"disasm", fieldDisassembly}, {"brstackinsn", fieldBlocks}, {"brstackinsnlen", fieldBlockLengths},
	{"callindent", fieldCallIndent}, {"synth", fieldSynthetic}, {"ipc", fieldIPC}, {"machine_pid", fieldMachinePID}, {"vcpu", fieldVCPU},
}

// FieldNames returns the names of the fields.
func FieldNames() []string {
	var names []string
	for _, f := range fieldNames {
		names = append(names, f.name)
	}
	return names
}

// kind is the kind of a sample's event: the Type of its attribute, with one kind for the events of all PMUs. Each kind has its own fields.
type kind int

// The kinds.
const (
	kindHardware kind = iota
	kindSoftware
	kindTracepoint
	kindHardwareCache
	kindRaw
	kindBreakpoint
	kindSynthesized
	kindOther
	kinds
)

// kindNames are the prefixes of field lists. Kinds without a prefix have the fields that are set for all kinds.
var kindNames = map[string]kind{"hw": kindHardware, "sw": kindSoftware, "trace": kindTracepoint, "raw": kindRaw, "break": kindBreakpoint, "synth": kindSynthesized}

var longKindNames = [kinds]string{"hardware", "software", "tracepoint", "hardware-cache", "raw", "breakpoint", "synth", "other"}

// typeSynthesized is the type that perf gives events that it decodes from hardware traces: PERF_TYPE_SYNTH.
const typeSynthesized = 1 << 31

// kindOf returns the kind of an event.
func kindOf(e *perfdata.Event) kind {
	switch {
	case e == nil:
		return kindOther
	case e.Attr.Type == typeSynthesized:
		return kindSynthesized
	case e.Attr.Type <= uint32(kindBreakpoint):
		return kind(e.Attr.Type)
	}
	return kindOther
}

const (
	usual   = fieldComm | fieldTID | fieldCPU | fieldTime | fieldEventName | fieldIP | fieldSymbol | fieldSymbolOffset | fieldDSO | fieldPeriod
	ofChain = fieldIP | fieldSymbol | fieldSymbolOffset | fieldDSO

	ofBranches = fieldBranches | fieldBranchSymbols | fieldBranchOffsets
	ofBlocks   = fieldBlocks | fieldBlockLengths
)

// Selection is the set of fields that is printed for samples of each kind.
type Selection struct {
	fields [kinds]field
	asked  [kinds]field // fields that the user asked for: a recording must have them
	set    [kinds]bool  // the user chose fields for the kind
	Notes  []string     // for the user: which fields were ignored
}

// NewSelection returns the default selection.
func NewSelection() *Selection {
	s := &Selection{}
	for k := range s.fields {
		s.fields[k] = usual
	}
	s.fields[kindSoftware] |= fieldBPFOutput
	s.fields[kindTracepoint] = fieldComm | fieldTID | fieldCPU | fieldTime | fieldEventName | fieldTrace
	s.fields[kindRaw] |= fieldAddr | fieldDataSource | fieldWeight | fieldPhysAddr | fieldDataPageSize | fieldCodePageSize | fieldInstructionLatency
	s.fields[kindSynthesized] &^= fieldPeriod
	return s
}

// invalid returns the fields that events of a kind cannot have.
func invalid(k kind) field {
	switch k {
	case kindTracepoint:
		return 0
	case kindSoftware:
		return fieldTrace
	}
	return fieldTrace | fieldBPFOutput
}

// Parse applies a list of fields to all kinds of events, or to one kind if hw:, sw:, trace:, raw:, break: or synth: precedes the list.
// Fields with + or - in front are added or removed; other lists replace the selection. Unknown kinds and fields are errors.
func (s *Selection) Parse(text string) error {
	which := []kind{kindHardware, kindSoftware, kindTracepoint, kindHardwareCache, kindRaw, kindBreakpoint, kindSynthesized, kindOther}
	list := text
	one := false
	if name, rest, ok := strings.Cut(text, ":"); ok {
		k, known := kindNames[name]
		if !known {
			return fmt.Errorf("fields %q: %q is no kind of events; they are hw, sw, trace, raw, break and synth", text, name)
		}
		which, list, one = []kind{k}, rest, true
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

func fieldOf(name string) (field, error) {
	if name == "metric" {
		return 0, errors.New("only perf has metric: bperf computes metrics of counts, not of samples; use bperf stat")
	}
	i := slices.IndexFunc(fieldNames, func(f struct {
		name  string
		field field
	}) bool {
		return f.name == name
	})
	if i < 0 {
		return 0, fmt.Errorf("there is no field %q; they are %s", name, strings.Join(FieldNames(), ","))
	}
	return fieldNames[i].field, nil
}

// needs are the parts of a sample that fields depend on.
var needs = []struct {
	field field
	parts perfdata.SampleType // one of them is enough
	name  string
}{
	{fieldIP, perfdata.SampleIP, "IP"},
	{fieldAddr, perfdata.SampleAddr, "ADDR"},
	{fieldDataSource, perfdata.SampleDataSrc, "DATA_SRC"},
	{fieldWeight, perfdata.SampleWeight | perfdata.SampleWeightStruct, "WEIGHT"},
	{fieldPID | fieldTID, perfdata.SampleTID, "TID"},
	{fieldTime, perfdata.SampleTime, "TIME"},
	{fieldCPU, perfdata.SampleCPU, "CPU"},
	{fieldInterruptRegs, perfdata.SampleRegsIntr, "IREGS"},
	{fieldUserRegs, perfdata.SampleRegsUser, "UREGS"},
	{ofBranches, perfdata.SampleBranchStack, "BRANCH_STACK"},
	{fieldPhysAddr, perfdata.SamplePhysAddr, "PHYS_ADDR"},
	{fieldDataPageSize, perfdata.SampleDataPageSize, "DATA_PAGE_SIZE"},
	{fieldCodePageSize, perfdata.SampleCodePageSize, "CODE_PAGE_SIZE"},
	{fieldInstructionLatency, perfdata.SampleWeightStruct, "WEIGHT_STRUCT"},
	{fieldRetireLatency, perfdata.SampleWeightStruct, "WEIGHT_STRUCT"},
	{fieldCgroup, perfdata.SampleCgroup, "CGROUP"},
}

// fit removes the fields that an event's samples lack. As in perf, it removes them for all events of the kind. It returns an error if the
// user asked for such a field, except for branches: perf prints the other fields without them, and programs rely on that.
func (s *Selection) fit(e *perfdata.Event) (warning string, err error) {
	k := kindOf(e)
	for _, n := range needs {
		lacking := s.fields[k] & n.field
		if lacking == 0 || e.Attr.SampleType&n.parts != 0 {
			continue
		}
		asked := s.asked[k] & lacking
		switch {
		case asked&ofBranches != 0:
			warning = fmt.Sprintf("samples of %s have no branches, so %s is not printed; record them with -b", e.Name, fieldList(asked))
		case asked != 0:
			return "", fmt.Errorf("samples of %s have no %s, so %s cannot be printed; record it, or leave the field out with -F",
				e.Name, n.name, fieldList(asked))
		}
		s.fields[k] &^= lacking
	}
	fields, asked := s.fields[k], s.asked[k]
	address := e.Attr.SampleType&(perfdata.SampleIP|perfdata.SampleAddr) != 0
	switch {
	case asked&fieldSymbol != 0 && !address:
		return "", fmt.Errorf("samples of %s have no address whose symbol could be printed", e.Name)
	case asked&fieldDSO != 0 && !address:
		return "", fmt.Errorf("samples of %s have no address whose file could be printed", e.Name)
	case asked&fieldSymbolOffset != 0 && fields&fieldSymbol == 0:
		return "", fmt.Errorf("fields: symoff is the offset in the symbol, which is not among them; add sym")
	case asked&(fieldSourceLine|fieldSourceText) != 0 && fields&fieldIP == 0:
		return "", fmt.Errorf("fields: %s is that of the instruction pointer, which is not among them; add ip",
			fieldList(asked&(fieldSourceLine|fieldSourceText)))
	}
	return warning, nil
}

// fitBlocks returns an error if blocks are to be printed and no event of the recording has all branches: a block ends at the next recorded
// branch, of whatever kind it is.
func (s *Selection) fitBlocks(events []*perfdata.Event) error {
	var fields field
	var types perfdata.BranchSampleType
	for _, e := range events {
		fields |= s.fields[kindOf(e)] & ofBlocks
		types |= e.Attr.BranchSampleType
	}
	if fields != 0 && types&perfdata.BranchAny == 0 {
		return fmt.Errorf("the samples do not have all branches, so %s cannot be printed; record them with -b", fieldList(fields))
	}
	return nil
}

func fieldList(fields field) string {
	var names []string
	for _, f := range fieldNames {
		if f.field&fields != 0 {
			names = append(names, f.name)
		}
	}
	return strings.Join(names, ",")
}

// withChains adds the fields of callchains to tracepoints, unless the user chose their fields.
func (s *Selection) withChains() {
	if !s.set[kindTracepoint] {
		s.fields[kindTracepoint] |= ofChain
	}
}

// prints reports whether a field is printed for any kind of events.
func (s *Selection) prints(f field) bool {
	return slices.ContainsFunc(s.fields[:], func(fields field) bool { return fields&f != 0 })
}
