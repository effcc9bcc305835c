package perfdata

import (
	"math/bits"
	"slices"
)

// SampleID holds the fields that identify the source of a record: struct sample_id. Samples have it and, with AttrSampleIDAll, all other
// records of the kernel. A field that is not in Fields is 0.
type SampleID struct {
	Fields   SampleType // the fields that are present; in a sample, its event's whole sample type
	PID, TID int32      // SampleTID
	CPU      uint32     // SampleCPU
	Time     uint64     // SampleTime: ns of the event's clock
	ID       uint64     // SampleEventID or SampleIdentifier: one of Event.IDs
	StreamID uint64     // SampleStreamID
}

// Sample is PERF_RECORD_SAMPLE. Fields, the sample type of its event, says which fields are present. The sample and its slices are valid as
// long as its [Record]; use [Sample.Clone] to keep them.
type Sample struct {
	SampleID
	IP        uint64
	Addr      uint64 // data address of the memory access, or another address that depends on the event
	Period    uint64 // number of events that this sample stands for
	Read      Readings
	Callchain []uint64 // addresses, innermost frame first, and context markers (Context…)
	Raw       []byte   // tracepoints: their fields as in tracefs' format; bpf-output: the program's data; includes padding

	BranchHWIndex  uint64   // only with BranchHWIndex in the event's BranchSampleType; ^0 if unknown
	Branches       []Branch // the latest first
	BranchCounters []uint64 // only with BranchCounters: one for each of Branches

	UserRegs  Registers
	IntrRegs  Registers
	UserStack []byte // the part of the user's stack that was recorded, from the stack pointer on

	Weight       Weight
	DataSource   DataSource
	Transaction  uint64 // PERF_TXN_…
	PhysAddr     uint64
	Cgroup       uint64 // its ID: the inode number in cgroup2
	DataPageSize uint64 // bytes
	CodePageSize uint64 // bytes
	Aux          []byte

	Rest []byte // undecoded bytes after the known fields, from a later kernel
}

// Clone returns a copy that shares no memory with s.
func (s *Sample) Clone() *Sample {
	c := *s
	c.Read.Values = slices.Clone(s.Read.Values)
	c.Callchain, c.Raw = slices.Clone(s.Callchain), slices.Clone(s.Raw)
	c.Branches, c.BranchCounters = slices.Clone(s.Branches), slices.Clone(s.BranchCounters)
	c.UserRegs.Values, c.IntrRegs.Values, c.UserStack = slices.Clone(s.UserRegs.Values), slices.Clone(s.IntrRegs.Values), slices.Clone(s.UserStack)
	c.Aux, c.Rest = slices.Clone(s.Aux), slices.Clone(s.Rest)
	return &c
}

// Context markers in a callchain: the frames after a marker belong to its context. They are enum perf_callchain_context.
const (
	ContextHV           = ^uint64(32) + 1
	ContextKernel       = ^uint64(128) + 1
	ContextUser         = ^uint64(512) + 1
	ContextUserDeferred = ^uint64(640) + 1 // Linux 6.19: the next entry is the cookie of a CallchainDeferred
	ContextGuest        = ^uint64(2048) + 1
	ContextGuestKernel  = ^uint64(2176) + 1
	ContextGuestUser    = ^uint64(2560) + 1
	ContextMax          = ^uint64(4095) + 1 // all markers are at or above it
)

// IsContext reports whether an entry of a callchain is a context marker, not an address.
func IsContext(entry uint64) bool { return entry >= ContextMax }

// AppendCallchain appends kernel and user frames to a callchain, each after its context marker. The innermost frame comes first. It appends
// no marker for an empty part.
func AppendCallchain(chain, kernel, user []uint64) []uint64 {
	if len(kernel) > 0 {
		chain = append(append(chain, ContextKernel), kernel...)
	}
	if len(user) > 0 {
		chain = append(append(chain, ContextUser), user...)
	}
	return chain
}

// Readings are the values of one event's counter or, with ReadGroup, of all counters of a group: struct read_format.
type Readings struct {
	Format  ReadFormat
	Enabled uint64 // ns
	Running uint64 // ns
	Values  []Reading
}

// Reading is the value of one counter.
type Reading struct {
	Value uint64
	ID    uint64 // only with ReadID
	Lost  uint64 // only with ReadLost: number of lost samples
}

// Branch is struct perf_branch_entry.
type Branch struct {
	From, To uint64
	Flags    BranchFlags
}

// BranchFlags are the bit fields of struct perf_branch_entry, in the layout of a little-endian machine.
type BranchFlags uint64

// Mispredicted reports whether the branch target was mispredicted. If neither Mispredicted nor Predicted is set, the hardware does not
// report predictions.
func (f BranchFlags) Mispredicted() bool { return f&1 != 0 }

// Predicted reports whether the branch target was predicted correctly.
func (f BranchFlags) Predicted() bool { return f&2 != 0 }

// InTX reports whether the branch was in a transaction.
func (f BranchFlags) InTX() bool { return f&4 != 0 }

// Abort reports whether the branch is the abort of a transaction.
func (f BranchFlags) Abort() bool { return f&8 != 0 }

// Cycles returns the number of cycles since the previous branch, or 0 if the hardware does not report it.
func (f BranchFlags) Cycles() uint16 { return uint16(f >> 4) }

// Type returns the type of branch: PERF_BR_…. If it is 15 (PERF_BR_EXTEND_ABI), NewType returns the type.
func (f BranchFlags) Type() uint8 { return uint8(f>>20) & 15 }

// Spec returns the outcome of the branch's speculation: PERF_BR_SPEC_….
func (f BranchFlags) Spec() uint8 { return uint8(f>>24) & 3 }

// NewType returns the type of branch if Type returns 15: PERF_BR_NEW_….
func (f BranchFlags) NewType() uint8 { return uint8(f>>26) & 15 }

// Priv returns the privilege level of the branch, PERF_BR_PRIV_…: 1 user, 2 kernel, 3 hypervisor.
func (f BranchFlags) Priv() uint8 { return uint8(f>>30) & 7 }

// Registers are the values of CPU registers.
type Registers struct {
	ABI    uint64   // PERF_SAMPLE_REGS_ABI_…: 0 no registers, 1 32 bits, 2 64 bits
	Mask   uint64   // one bit for each register in Values, numbered as in the architecture's enum perf_event_…_regs
	Values []uint64 // ascending by register number
}

// Get returns the value of a register, by its number. It returns false if the register was not recorded.
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

// Weight is the cost of the sampled event: union perf_sample_weight. With SampleWeight it is one number; with SampleWeightStruct it holds
// three, which Var1, Var2 and Var3 return.
type Weight uint64

// Var1 returns the lower 32 bits: on most hardware the latency, in cycles.
func (w Weight) Var1() uint32 { return uint32(w) }

// Var2 returns the next 16 bits: on x86 the latency of the instruction, in cycles.
func (w Weight) Var2() uint16 { return uint16(w >> 32) }

// Var3 returns the upper 16 bits: on x86 the time in the pipeline until retirement, in cycles.
func (w Weight) Var3() uint16 { return uint16(w >> 48) }
