package perfdata

// Attr is struct perf_event_attr up to PERF_ATTR_SIZE_VER9. It has the kernel's memory layout, so that a caller can pass its address to
// perf_event_open(2). An older kernel accepts it if all fields that the kernel does not know are zero, and returns E2BIG otherwise.
//
// If a file has a shorter structure, of an older kernel, the missing fields are zero. If it has a longer one, a Reader ignores the
// additional fields.
//
// Attr exists because unix.PerfEventAttr ends at sig_data.
type Attr struct {
	Type             uint32 // TypeHardware and so on, or the type of a PMU in sysfs
	Size             uint32 // bytes in the file; 0 writes AttrSize
	Config           uint64
	SamplePeriod     uint64 // with AttrFreq: sample_freq, in Hz
	SampleType       SampleType
	ReadFormat       ReadFormat
	Flags            AttrFlags
	WakeupEvents     uint32 // samples; with AttrWatermark: wakeup_watermark, bytes of records of any type
	BPType           uint32
	Config1          uint64 // bp_addr, kprobe_func, uprobe_path
	Config2          uint64 // bp_len, kprobe_addr, probe_offset
	BranchSampleType BranchSampleType
	SampleRegsUser   uint64 // one bit for each register
	SampleStackUser  uint32 // bytes
	ClockID          int32
	SampleRegsIntr   uint64
	AuxWatermark     uint32
	SampleMaxStack   uint16
	_                uint16
	AuxSampleSize    uint32
	AuxAction        uint32 // Linux 6.15
	SigData          uint64 // Linux 5.13
	Config3          uint64 // Linux 6.3
	Config4          uint64 // Linux 6.18
}

// AttrSize is the size of Attr in bytes: PERF_ATTR_SIZE_VER9.
const AttrSize = 144

// Types of events: enum perf_type_id.
const (
	TypeHardware = iota
	TypeSoftware
	TypeTracepoint
	TypeHWCache
	TypeRaw
	TypeBreakpoint
)

// PMUTypeShift is the position of the PMU's type in the Config of a hardware or cache event. The type selects one PMU on a machine with
// several kinds of cores. It is PERF_PMU_TYPE_SHIFT, Linux 5.13 on x86, 6.2 on arm64.
const PMUTypeShift = 32

// Events of TypeSoftware: enum perf_sw_ids. The clocks count ns.
const (
	SoftwareCPUClock        = 0
	SoftwareTaskClock       = 1
	SoftwarePageFaults      = 2
	SoftwareContextSwitches = 3
	SoftwareCPUMigrations   = 4
	SoftwareDummy           = 9
	SoftwareBPFOutput       = 10
	SoftwareCgroupSwitches  = 11 // Linux 5.13
)

// ClockMonotonic is CLOCK_MONOTONIC of include/uapi/linux/time.h, a value of Attr.ClockID.
const ClockMonotonic = 1

// AttrFlags are the one-bit fields of struct perf_event_attr and the two bits of precise_ip.
type AttrFlags uint64

// The flags, in the order of the structure.
const (
	AttrDisabled AttrFlags = 1 << iota
	AttrInherit
	AttrPinned
	AttrExclusive
	AttrExcludeUser
	AttrExcludeKernel
	AttrExcludeHV
	AttrExcludeIdle
	AttrMmap // emit records of executable mappings
	AttrComm // emit records of threads' new names
	AttrFreq
	AttrInheritStat // emit a Read record when a thread ends
	AttrEnableOnExec
	AttrTask // emit records of forks and exits
	AttrWatermark
	AttrPreciseIP1
	AttrPreciseIP2
	AttrMmapData // emit records of mappings that are not executable
	AttrSampleIDAll
	AttrExcludeHost
	AttrExcludeGuest
	AttrExcludeCallchainKernel
	AttrExcludeCallchainUser
	AttrMmap2    // emit Mmap2 records, which have inode and protection
	AttrCommExec // mark Comm records caused by execve(2)
	AttrUseClockID
	AttrContextSwitch
	AttrWriteBackward
	AttrNamespaces // emit records of the namespaces of new processes, Linux 4.12
	AttrKSymbol    // emit records of kernel symbols, Linux 5.1
	AttrBPFEvent   // emit records of BPF programs, Linux 5.1
	AttrAuxOutput
	AttrCgroup // emit records of new cgroups, Linux 5.7
	AttrTextPoke
	AttrBuildID       // put build IDs into Mmap2 records, Linux 5.12
	AttrInheritThread // inherit only to threads, not to processes, Linux 5.13
	AttrRemoveOnExec
	AttrSigtrap
	AttrDeferCallchain // Linux 6.19
	AttrDeferOutput    // Linux 6.19
)

// Has reports whether all flags of f are set.
func (a *Attr) Has(f AttrFlags) bool { return a.Flags&f == f }

// PreciseIP returns precise_ip, 0 to 3.
func (a *Attr) PreciseIP() int { return int(a.Flags / AttrPreciseIP1 & 3) }

// SampleType selects the fields of samples, and of the trailers of other records: enum perf_event_sample_format.
type SampleType uint64

// The bits of SampleType.
const (
	SampleIP SampleType = 1 << iota
	SampleTID
	SampleTime
	SampleAddr
	SampleRead
	SampleCallchain
	SampleEventID // PERF_SAMPLE_ID
	SampleCPU
	SamplePeriod
	SampleStreamID
	SampleRaw
	SampleBranchStack
	SampleRegsUser
	SampleStackUser
	SampleWeight
	SampleDataSrc
	SampleIdentifier // the ID, at a position that does not depend on the event
	SampleTransaction
	SampleRegsIntr
	SamplePhysAddr
	SampleAux
	SampleCgroup       // Linux 5.7
	SampleDataPageSize // Linux 5.11
	SampleCodePageSize // Linux 5.11
	SampleWeightStruct // Linux 5.12
)

// Has reports whether all bits of b are set.
func (t SampleType) Has(b SampleType) bool { return t&b == b }

// ReadFormat selects the fields of counter readings: enum perf_event_read_format.
type ReadFormat uint64

// The bits of ReadFormat.
const (
	ReadTotalTimeEnabled ReadFormat = 1 << iota
	ReadTotalTimeRunning
	ReadID
	ReadGroup
	ReadLost // number of lost samples, Linux 6.0
)

// BranchSampleType selects which branches are recorded, and with which fields: enum perf_branch_sample_type.
type BranchSampleType uint64

// The bits of BranchSampleType.
const (
	BranchUser BranchSampleType = 1 << iota
	BranchKernel
	BranchHV
	BranchAny
	BranchAnyCall
	BranchAnyReturn
	BranchIndCall
	BranchAbortTX
	BranchInTX
	BranchNoTX
	BranchCond
	BranchCallStack
	BranchIndJump
	BranchCall
	BranchNoFlags
	BranchNoCycles
	BranchTypeSave
	BranchHWIndex  // Linux 5.7
	BranchPrivSave // Linux 6.1
	BranchCounters // Linux 6.8
)

// Event is one event of a recording. It stands for all perf events that were opened, for example one per CPU or task, with the same
// attributes.
type Event struct {
	Attr  Attr
	IDs   []uint64 // one ID for each opened perf event (PERF_EVENT_IOC_ID); samples carry one of them
	Name  string   // as on the command line; empty if the recording does not have it
	Index int      // in Reader.Events

	// From EVENT_UPDATE records.
	Unit  string  // empty if there is none
	Scale float64 // 0 if there is none
	CPUs  []int   // the CPUs that the event is limited to; nil if there is no limit
}
