package script

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/replay"
	"github.com/bperf/bperf/perfdata"
)

// Software events of enum perf_sw_ids.
const (
	configPageFaults    = 2
	configPageFaultsMin = 5
	configPageFaultsMaj = 6
	configBPFOutput     = 10
)

func isBPFOutput(e *perfdata.Event) bool {
	return e != nil && kindOf(e) == kindSoftware && e.Attr.Config == configBPFOutput
}

// addressesMemory reports whether the address in samples of an event is in the memory of the sampled thread.
func addressesMemory(e *perfdata.Event) bool {
	if e == nil || kindOf(e) != kindSoftware {
		return false
	}
	return e.Attr.Config == configPageFaults || e.Attr.Config == configPageFaultsMin || e.Attr.Config == configPageFaultsMaj
}

// appendDataSource prints a data source in hexadecimal and in words.
func appendDataSource(out []byte, d perfdata.DataSource) []byte {
	return d.AppendWords(append(appendHex(out, uint64(d), 16), ' '))
}

// memory prints what processors report about memory accesses.
func (t *text) memory(s *perfdata.Sample, fields field, out []byte) []byte {
	if fields&fieldDataSource != 0 {
		out = appendDataSource(out, s.DataSource)
	}
	weight := uint64(s.Weight)
	if s.Fields.Has(perfdata.SampleWeightStruct) {
		weight = uint64(s.Weight.Var1())
	}
	if fields&fieldWeight != 0 {
		out = appendUint(out, weight, 16)
	}
	if fields&fieldInstructionLatency != 0 {
		out = appendUint(out, uint64(s.Weight.Var2()), 16)
	}
	if fields&fieldRetireLatency != 0 {
		out = appendUint(out, uint64(s.Weight.Var3()), 16)
	}
	return out
}

// sizes prints the last fields of a sample: the physical address and the sizes of pages.
func (t *text) sizes(s *perfdata.Sample, fields field, out []byte) []byte {
	if fields&fieldPhysAddr != 0 {
		out = appendHex(out, s.PhysAddr, 16)
	}
	if fields&fieldDataPageSize != 0 {
		out = append(append(out, ' '), printable.PageSize(s.DataPageSize)...)
	}
	if fields&fieldCodePageSize != 0 {
		out = append(append(out, ' '), printable.PageSize(s.CodePageSize)...)
	}
	return out
}

func (t *text) registers(r *perfdata.Registers, out []byte) []byte {
	out = strconv.AppendUint(append(out, " ABI:"...), r.ABI, 10)
	out = append(out, ' ')
	for number := range 64 {
		if v, ok := r.Get(number); ok {
			out = append(appendRight(out, perfdata.RegisterName(t.arch, number), 5), ":0x"...)
			out = append(strconv.AppendUint(out, v, 16), ' ')
		}
	}
	return out
}

// branches prints the branches before a sample, the latest first.
func (t *text) branches(item *replay.Item, fields field, out []byte) []byte {
	for i := range item.Sample.Branches {
		b := &item.Sample.Branches[i]
		if fields&fieldBranchSymbols == 0 || fields&fieldBranches != 0 {
			out = append(out, ' ')
		}
		out = t.branchEnd(item, b.From, fields, out)
		out = append(out, '/')
		out = t.branchEnd(item, b.To, fields, out)
		out = appendBranchFlags(out, b.Flags)
	}
	return out
}

func (t *text) branchEnd(item *replay.Item, addr uint64, fields field, out []byte) []byte {
	if fields&fieldBranches != 0 {
		out = strconv.AppendUint(append(out, "0x"...), addr, 16)
		if fields&fieldDSO != 0 {
			out = append(appendDSO(append(out, '('), exactly(t.Branch(item, addr)), 0), ')')
		}
		return out
	}
	l := t.Branch(item, addr)
	if fields&fieldBranchSymbols != 0 {
		out = appendSymbol(out, exactly(l), true)
	} else if l.DSO != nil {
		out = strconv.AppendUint(append(out, "0x"...), l.Addr, 16)
	} else {
		out = strconv.AppendUint(append(out, "0x"...), addr, 16)
	}
	if fields&fieldDSO != 0 {
		out = append(appendDSO(append(out, '('), exactly(l), 0), ')')
	}
	return out
}

// branchTypes are PERF_BR_….
var branchTypes = []string{"", "COND", "UNCOND", "IND", "CALL", "IND_CALL", "RET", "SYSCALL", "SYSRET", "COND_CALL", "COND_RET", "ERET", "IRQ",
	"SERROR", "NO_TX", ""}

// branchSpecs are PERF_BR_SPEC_….
var branchSpecs = []string{"-", "SPEC_WRONG_PATH", "NON_SPEC_CORRECT_PATH", "SPEC_CORRECT_PATH"}

func appendBranchFlags(out []byte, f perfdata.BranchFlags) []byte {
	mark := func(is bool, c byte) byte {
		if is {
			return c
		}
		return '-'
	}
	prediction := mark(f.Mispredicted(), 'M')
	if f.Predicted() {
		prediction = 'P'
	}
	out = append(out, '/', prediction, '/', mark(f.InTX(), 'X'), '/', mark(f.Abort(), 'A'), '/')
	out = append(strconv.AppendUint(out, uint64(f.Cycles()), 10), '/')
	out = append(append(out, branchTypes[f.Type()]...), '/')
	return append(append(out, branchSpecs[f.Spec()]...), ' ')
}

// appendDump prints bytes as perf prints the output of BPF programs: 8 on a line, in hexadecimal and as letters. If the bytes are a
// printable string that ends with zeros, it prints the string as well.
func appendDump(out, raw []byte) []byte {
	const each = 8
	for at := 0; at < len(raw); at += each {
		line := raw[at:min(at+each, len(raw))]
		if at == 0 {
			out = append(out, "\n      BPF output:"...)
		} else {
			out = append(out, "                 "...)
		}
		out = appendLine(fmt.Appendf(out, " %04x:", at), line, each)
	}
	text, zeros, ends := bytes.Cut(raw, []byte{0})
	letters := !slices.ContainsFunc(text, func(c byte) bool { return c < ' ' || c > '~' })
	if ends && letters && len(bytes.Trim(zeros, "\x00")) == 0 {
		out = append(append(append(out, "      BPF string: \""...), text...), "\"\n"...)
	}
	return out
}

func (t *text) appendTimeOfDay(out []byte, ns uint64) []byte {
	value, _ := t.reader.Features().Get(perfdata.FeatureClockData)
	clock, _ := value.(perfdata.ClockData)
	at := time.Unix(0, int64(clock.WallClock+ns-clock.Clock))
	layout := "2006-01-02 15:04:05.000000"
	if t.o.Nanos {
		layout = "2006-01-02 15:04:05.000000000"
	}
	return at.AppendFormat(out, layout)
}
