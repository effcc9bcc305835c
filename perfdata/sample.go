package perfdata

import (
	"math/bits"
	"slices"
)

// SampleID is what samples and, with AttrSampleIDAll, all other records of the kernel can have: struct sample_id. What is not in
// Fields is 0.
type SampleID struct {
	Fields   SampleType // which of them there are; of a sample, all that it consists of
	PID, TID int32      // SampleTID
	CPU      uint32     // SampleCPU
	Time     uint64     // SampleTime: ns of the event's clock
	ID       uint64     // SampleEventID or SampleIdentifier: one of Event.IDs
	StreamID uint64     // SampleStreamID
}

// Sample is PERF_RECORD_SAMPLE. What it consists of is in Fields: the sample type of its event. Its slices, too, are valid no longer
// than the record.
type Sample struct {
	SampleID
	IP        uint64
	Addr      uint64 // data address of a memory access, or of what the event is about
	Period    uint64 // events that this sample stands for
	Read      Readings
	Callchain []uint64 // from the innermost frame on, with the marks Context… in between
	Raw       []byte   // of tracepoints: their fields as in tracefs' format; of bpf-output: what the program wrote; with padding

	BranchHWIndex  uint64   // with BranchHWIndex in the event's BranchSampleType; ^0 if it is not known
	Branches       []Branch // the latest first
	BranchCounters []uint64 // with BranchCounters: one for each of Branches

	UserRegs  Registers
	IntrRegs  Registers
	UserStack []byte // what there was of the user's stack, from the stack pointer on

	Weight       Weight
	DataSource   DataSource
	Transaction  uint64 // PERF_TXN_…
	PhysAddr     uint64
	Cgroup       uint64 // its ID: the inode number in cgroup2
	DataPageSize uint64 // bytes
	CodePageSize uint64 // bytes
	Aux          []byte

	Rest []byte // what a later kernel has put behind it
}

// Clone is a copy that shares no memory with the sample.
func (s *Sample) Clone() *Sample {
	c := *s
	c.Read.Values = slices.Clone(s.Read.Values)
	c.Callchain, c.Raw = slices.Clone(s.Callchain), slices.Clone(s.Raw)
	c.Branches, c.BranchCounters = slices.Clone(s.Branches), slices.Clone(s.BranchCounters)
	c.UserRegs.Values, c.IntrRegs.Values, c.UserStack = slices.Clone(s.UserRegs.Values), slices.Clone(s.IntrRegs.Values), slices.Clone(s.UserStack)
	c.Aux, c.Rest = slices.Clone(s.Aux), slices.Clone(s.Rest)
	return &c
}

// Marks in a callchain: the frames behind one are of that context. enum perf_callchain_context.
const (
	ContextHV           = ^uint64(32) + 1
	ContextKernel       = ^uint64(128) + 1
	ContextUser         = ^uint64(512) + 1
	ContextUserDeferred = ^uint64(640) + 1 // Linux 6.19: what follows is the cookie of a CallchainDeferred
	ContextGuest        = ^uint64(2048) + 1
	ContextGuestKernel  = ^uint64(2176) + 1
	ContextGuestUser    = ^uint64(2560) + 1
	ContextMax          = ^uint64(4095) + 1 // all marks are at or above it
)

// IsContext reports whether an entry of a callchain is a mark, not an address.
func IsContext(entry uint64) bool { return entry >= ContextMax }

// AppendCallchain appends a stack to a callchain: what it has of the kernel and of the user, each behind its mark, with the innermost frame first.
func AppendCallchain(chain, kernel, user []uint64) []uint64 {
	if len(kernel) > 0 {
		chain = append(append(chain, ContextKernel), kernel...)
	}
	if len(user) > 0 {
		chain = append(append(chain, ContextUser), user...)
	}
	return chain
}

// Readings are of the counter of one event, or of those of a group: struct read_format.
type Readings struct {
	Format  ReadFormat
	Enabled uint64 // ns
	Running uint64 // ns
	Values  []Reading
}

// Reading is of one counter.
type Reading struct {
	Value uint64
	ID    uint64 // with ReadID
	Lost  uint64 // with ReadLost: samples
}

// Branch is struct perf_branch_entry.
type Branch struct {
	From, To uint64
	Flags    BranchFlags
}

// BranchFlags are the bit fields of struct perf_branch_entry as they are on a little-endian machine.
type BranchFlags uint64

// Mispredicted: the target was. Where neither it nor Predicted is set, the hardware does not tell.
func (f BranchFlags) Mispredicted() bool { return f&1 != 0 }

// Predicted: the target was, rightly.
func (f BranchFlags) Predicted() bool { return f&2 != 0 }

// InTX: in a transaction.
func (f BranchFlags) InTX() bool { return f&4 != 0 }

// Abort: of a transaction.
func (f BranchFlags) Abort() bool { return f&8 != 0 }

// Cycles since the branch before; 0 if the hardware does not tell.
func (f BranchFlags) Cycles() uint16 { return uint16(f >> 4) }

// Type is PERF_BR_…; where it is 15 (PERF_BR_EXTEND_ABI), NewType has it.
func (f BranchFlags) Type() uint8 { return uint8(f>>20) & 15 }

// Spec is PERF_BR_SPEC_…: what became of the branch's speculation.
func (f BranchFlags) Spec() uint8 { return uint8(f>>24) & 3 }

// NewType is PERF_BR_NEW_….
func (f BranchFlags) NewType() uint8 { return uint8(f>>26) & 15 }

// Priv is PERF_BR_PRIV_…: 1 user, 2 kernel, 3 hypervisor.
func (f BranchFlags) Priv() uint8 { return uint8(f>>30) & 7 }

// Registers of the CPU.
type Registers struct {
	ABI    uint64 // PERF_SAMPLE_REGS_ABI_…: 0 none, 1 of 32 bits, 2 of 64 bits
	Mask   uint64 // which they are: enum perf_event_…_regs of the architecture
	Values []uint64
}

// Get returns the register with a number; false if it was not recorded.
func (r *Registers) Get(number int) (uint64, bool) {
	if number < 0 || number > 63 || r.Mask>>number&1 == 0 {
		return 0, false
	}
	at := bits.OnesCount64(r.Mask & (1<<number - 1))
	if at >= len(r.Values) {
		return 0, false
	}
	return r.Values[at], true
}

// Weight says how costly the sampled event was: union perf_sample_weight. With SampleWeight all bits are one number; with
// SampleWeightStruct there are three.
type Weight uint64

// Var1 are the lower 32 bits: mostly the latency, in cycles.
func (w Weight) Var1() uint32 { return uint32(w) }

// Var2 are the next 16 bits: on x86 the latency of the instruction, in cycles.
func (w Weight) Var2() uint16 { return uint16(w >> 32) }

// Var3 are the last 16 bits: on x86 the time in the pipeline until retirement, in cycles.
func (w Weight) Var3() uint16 { return uint16(w >> 48) }
