package perfdata

// Attr is struct perf_event_attr as of PERF_ATTR_SIZE_VER9, with the layout of the kernel: perf_event_open(2) takes it as it is. Older kernels take the
// longer structure where what they do not know is zero, and answer E2BIG otherwise. Of the shorter ones in files of older kernels the rest is zero; what
// later kernels put behind it is not read.
//
// unix.PerfEventAttr ends at sig_data, which is why this one exists.
type Attr struct {
	Type             uint32 // TypeHardware and so on, or that of a PMU in sysfs
	Size             uint32 // bytes in the file; 0 for writing: AttrSize
	Config           uint64
	SamplePeriod     uint64 // or sample_freq, in Hz, with AttrFreq
	SampleType       SampleType
	ReadFormat       ReadFormat
	Flags            AttrFlags
	WakeupEvents     uint32 // samples; or wakeup_watermark, bytes of records of any type, with AttrWatermark
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

// AttrSize is the size of the structure that is known here, which is the one that is written: PERF_ATTR_SIZE_VER9.
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

// PMUTypeShift is where the Config of a hardware or cache event has the type of the PMU that is meant, on machines with several kinds of cores:
// PERF_PMU_TYPE_SHIFT, Linux 5.13 on x86, 6.2 on arm64.
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

// AttrFlags are the one-bit fields of struct perf_event_attr, and precise_ip, the one with two.
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
	AttrMmap // records of executable memory that is mapped
	AttrComm // records of new names of threads
	AttrFreq
	AttrInheritStat // records of what each thread has counted when it ends
	AttrEnableOnExec
	AttrTask // records of forks and exits
	AttrWatermark
	AttrPreciseIP1
	AttrPreciseIP2
	AttrMmapData // records of other memory that is mapped
	AttrSampleIDAll
	AttrExcludeHost
	AttrExcludeGuest
	AttrExcludeCallchainKernel
	AttrExcludeCallchainUser
	AttrMmap2    // with inodes and protection
	AttrCommExec // marks names that are new because of execve(2)
	AttrUseClockID
	AttrContextSwitch
	AttrWriteBackward
	AttrNamespaces // records of the namespaces of new processes, Linux 4.12
	AttrKSymbol    // records of code of the kernel, Linux 5.1
	AttrBPFEvent   // records of BPF programs, Linux 5.1
	AttrAuxOutput
	AttrCgroup // records of new cgroups, Linux 5.7
	AttrTextPoke
	AttrBuildID       // in records of Mmap2, Linux 5.12
	AttrInheritThread // children inherit only if they are threads, Linux 5.13
	AttrRemoveOnExec
	AttrSigtrap
	AttrDeferCallchain // Linux 6.19
	AttrDeferOutput    // Linux 6.19
)

// Has reports whether all of f are set.
func (a *Attr) Has(f AttrFlags) bool { return a.Flags&f == f }

// PreciseIP is precise_ip: 0 to 3.
func (a *Attr) PreciseIP() int { return int(a.Flags / AttrPreciseIP1 & 3) }

// SampleType says what samples, and the trailers of other records, consist of: enum perf_event_sample_format.
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
	SampleIdentifier // the ID, where it is found in every record without knowing the event
	SampleTransaction
	SampleRegsIntr
	SamplePhysAddr
	SampleAux
	SampleCgroup       // Linux 5.7
	SampleDataPageSize // Linux 5.11
	SampleCodePageSize // Linux 5.11
	SampleWeightStruct // Linux 5.12
)

// Has reports whether all of b are set.
func (t SampleType) Has(b SampleType) bool { return t&b == b }

// ReadFormat says what readings of counters consist of: enum perf_event_read_format.
type ReadFormat uint64

// The bits of ReadFormat.
const (
	ReadTotalTimeEnabled ReadFormat = 1 << iota
	ReadTotalTimeRunning
	ReadID
	ReadGroup
	ReadLost // samples that found no room, Linux 6.0
)

// BranchSampleType says what branches are recorded, and how: enum perf_branch_sample_type.
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

// Event is one event of a recording: what was opened, for each CPU or task once, with the same attributes.
type Event struct {
	Attr  Attr
	IDs   []uint64 // of each time it was opened, PERF_EVENT_IOC_ID; samples have one of them
	Name  string   // as it was asked for on the command line; empty if the file does not tell
	Index int      // among the events of the recording

	Unit  string  // of EVENT_UPDATE records; empty if there is none
	Scale float64 // of EVENT_UPDATE records; 0 if there is none
	CPUs  []int   // of EVENT_UPDATE records: those it is limited to; nil if there is none
}
