package script

import (
	"fmt"
	"slices"

	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/replay"
	"github.com/bperf/bperf/perfdata"
)

// dumpSample prints the fields of a sample.
func (t *text) dumpSample(item *replay.Item, s *perfdata.Sample, out []byte) []byte {
	pid, tid, period := int32(-1), int32(-1), s.Period
	if s.Fields.Has(perfdata.SampleTID) {
		pid, tid = s.PID, s.TID
	}
	var attr perfdata.Attr
	if item.Event != nil {
		attr = item.Event.Attr
	}
	if !s.Fields.Has(perfdata.SamplePeriod) {
		period = attr.SamplePeriod
	}
	out = fmt.Appendf(out, "(IP, %#x): %d/%d: %s period: %d addr: %s\n", uint16(item.Misc), pid, tid, alternate(s.IP), period, alternate(s.Addr))
	calls := attr.BranchSampleType&perfdata.BranchCallStack != 0
	if s.Fields.Has(perfdata.SampleCallchain) {
		if calls {
			out = appendBranchChain(out, s)
		}
		out = appendCallchain(out, s.Callchain)
	}
	if s.Fields.Has(perfdata.SampleBranchStack) {
		out = appendBranchStack(out, s.Branches, calls)
	}
	out = t.dumpRegisters(out, "user", &s.UserRegs)
	out = t.dumpRegisters(out, "intr", &s.IntrRegs)
	if s.Fields.Has(perfdata.SampleStackUser) {
		out = fmt.Appendf(out, "... ustack: size %d, offset %#x\n", len(s.UserStack), stackOffset(s, attr.BranchSampleType))
	}
	return appendReadings(appendMemory(out, s), s)
}

// contexts are perf's names of the markers in callchains.
var contexts = map[uint64]string{perfdata.ContextHV: "HV", perfdata.ContextKernel: "KERNEL", perfdata.ContextUser: "USER",
	perfdata.ContextUserDeferred: "USER_DEFERRED", perfdata.ContextGuest: "GUEST", perfdata.ContextGuestKernel: "GUEST_KERNEL",
	perfdata.ContextGuestUser: "GUEST_USER"}

func appendCallchain(out []byte, chain []uint64) []byte {
	out = fmt.Appendf(out, "... FP chain: nr:%d\n", len(chain))
	for i, entry := range chain {
		out = fmt.Appendf(out, "..... %2d: %016x", i, entry)
		if name := contexts[entry]; name != "" {
			out = fmt.Appendf(out, " (PERF_CONTEXT_%s)", name)
		}
		out = append(out, '\n')
	}
	return out
}

// appendBranchChain prints the callchain whose user part the processor recorded as branches: the entries of the kernel up to the marker of the
// user part, the target of the latest call, and the origins of all calls.
func appendBranchChain(out []byte, s *perfdata.Sample) []byte {
	user := slices.Index(s.Callchain, perfdata.ContextUser)
	if user < 0 || len(s.Branches) == 0 {
		return out
	}
	chain := append(slices.Clone(s.Callchain[:user+1]), s.Branches[0].To)
	for i := range s.Branches {
		chain = append(chain, s.Branches[i].From)
	}
	out = fmt.Appendf(out, "... LBR call chain: nr:%d\n", len(chain))
	return appendEntries(out, chain)
}

func appendEntries(out []byte, entries []uint64) []byte {
	for i, entry := range entries {
		out = fmt.Appendf(out, "..... %2d: %016x\n", i, entry)
	}
	return out
}

// appendBranchStack prints branches or, if they are calls, the addresses of a callchain.
func appendBranchStack(out []byte, branches []perfdata.Branch, calls bool) []byte {
	if calls {
		var chain []uint64
		for i := range branches {
			if i == 0 {
				chain = append(chain, branches[i].To)
			}
			chain = append(chain, branches[i].From)
		}
		return appendEntries(fmt.Appendf(out, "... branch callstack: nr:%d\n", len(chain)), chain)
	}
	mark := func(is bool, name byte) byte {
		if is {
			return name
		}
		return ' '
	}
	out = fmt.Appendf(out, "... branch stack: nr:%d\n", len(branches))
	for i := range branches {
		f := branches[i].Flags
		spec := branchSpecs[f.Spec()]
		if f.Spec() == 0 {
			spec = ""
		}
		out = fmt.Appendf(out, "..... %2d: %016x -> %016x %d cycles %c%c%c%c %x %s %s\n", i, branches[i].From, branches[i].To, f.Cycles(),
			mark(f.Mispredicted(), 'M'), mark(f.Predicted(), 'P'), mark(f.Abort(), 'A'), mark(f.InTX(), 'T'), uint64(f)>>reservedBranchFlags,
			branchTypes[f.Type()], spec)
	}
	return out
}

// reservedBranchFlags is the position of the reserved bits in struct perf_branch_entry.
const reservedBranchFlags = 33

var registerABIs = []string{"none", "32-bit", "64-bit"}

func (t *text) dumpRegisters(out []byte, which string, r *perfdata.Registers) []byte {
	if r.ABI == 0 {
		return out
	}
	abi := "unknown"
	if r.ABI < uint64(len(registerABIs)) {
		abi = registerABIs[r.ABI]
	}
	out = fmt.Appendf(out, "... %s regs: mask %#x ABI %s\n", which, r.Mask, abi)
	for number := range 64 {
		if v, ok := r.Get(number); ok {
			out = fmt.Appendf(out, ".... %-5s 0x%016x\n", perfdata.RegisterName(t.arch, number), v)
		}
	}
	return out
}

// stackOffset returns the position of the user's stack in the record, which depends on the fields before it.
func stackOffset(s *perfdata.Sample, branches perfdata.BranchSampleType) int {
	const header = 8
	size := header
	for _, one := range []perfdata.SampleType{perfdata.SampleIdentifier, perfdata.SampleIP, perfdata.SampleTID, perfdata.SampleTime, perfdata.SampleAddr,
		perfdata.SampleEventID, perfdata.SampleStreamID, perfdata.SampleCPU, perfdata.SamplePeriod} {
		if s.Fields.Has(one) {
			size += 8
		}
	}
	if s.Fields.Has(perfdata.SampleRead) {
		size += readingsSize(&s.Read)
	}
	if s.Fields.Has(perfdata.SampleCallchain) {
		size += 8 + 8*len(s.Callchain)
	}
	if s.Fields.Has(perfdata.SampleRaw) {
		size += 4 + len(s.Raw)
	}
	if s.Fields.Has(perfdata.SampleBranchStack) {
		size += 8 + 24*len(s.Branches) + 8*len(s.BranchCounters)
		if branches&perfdata.BranchHWIndex != 0 {
			size += 8
		}
	}
	if s.Fields.Has(perfdata.SampleRegsUser) {
		size += 8 + 8*len(s.UserRegs.Values)
	}
	return size
}

// readingsSize returns the size of struct read_format.
func readingsSize(r *perfdata.Readings) int {
	each, words := 1, 0
	for _, one := range []perfdata.ReadFormat{perfdata.ReadID, perfdata.ReadLost} {
		if r.Format&one != 0 {
			each++
		}
	}
	for _, one := range []perfdata.ReadFormat{perfdata.ReadGroup, perfdata.ReadTotalTimeEnabled, perfdata.ReadTotalTimeRunning} {
		if r.Format&one != 0 {
			words++
		}
	}
	return 8 * (words + each*len(r.Values))
}

// appendMemory prints what processors report about memory accesses.
func appendMemory(out []byte, s *perfdata.Sample) []byte {
	switch {
	case s.Fields.Has(perfdata.SampleWeightStruct):
		out = fmt.Appendf(out, "... weight: %d,%#x,%#x\n", s.Weight.Var1(), s.Weight.Var2(), s.Weight.Var3())
	case s.Fields.Has(perfdata.SampleWeight):
		out = fmt.Appendf(out, "... weight: %d\n", uint64(s.Weight))
	}
	if s.Fields.Has(perfdata.SampleDataSrc) {
		out = fmt.Appendf(out, " . data_src: %#x\n", uint64(s.DataSource))
	}
	if s.Fields.Has(perfdata.SamplePhysAddr) {
		out = fmt.Appendf(out, " .. phys_addr: %#x\n", s.PhysAddr)
	}
	if s.Fields.Has(perfdata.SampleDataPageSize) {
		out = fmt.Appendf(out, " .. data page size: %s\n", printable.PageSize(s.DataPageSize))
	}
	if s.Fields.Has(perfdata.SampleCodePageSize) {
		out = fmt.Appendf(out, " .. code page size: %s\n", printable.PageSize(s.CodePageSize))
	}
	if s.Fields.Has(perfdata.SampleTransaction) {
		out = fmt.Appendf(out, "... transaction: %x\n", s.Transaction)
	}
	return out
}

func appendReadings(out []byte, s *perfdata.Sample) []byte {
	if !s.Fields.Has(perfdata.SampleRead) {
		return out
	}
	r := &s.Read
	out = append(out, "... sample_read:\n"...)
	if r.Format&perfdata.ReadTotalTimeEnabled != 0 {
		out = fmt.Appendf(out, "...... time enabled %016x\n", r.Enabled)
	}
	if r.Format&perfdata.ReadTotalTimeRunning != 0 {
		out = fmt.Appendf(out, "...... time running %016x\n", r.Running)
	}
	if r.Format&perfdata.ReadGroup != 0 {
		out = fmt.Appendf(out, ".... group nr %d\n", len(r.Values))
	}
	for _, v := range r.Values {
		out = fmt.Appendf(out, "..... id %016x, value %016x", v.ID, v.Value)
		if r.Format&perfdata.ReadLost != 0 {
			out = fmt.Appendf(out, ", lost %d", v.Lost)
		}
		out = append(out, '\n')
	}
	return out
}
