// Package perfevent is the boundary to perf_event_open(2): the attribute structure, opening, groups,
// reading and the ring buffer. It knows nothing of event names or of what is done with a reading.
//
// Structures and constants follow include/uapi/linux/perf_event.h.
package perfevent

import "golang.org/x/sys/unix"

// Attr is struct perf_event_attr as of PERF_ATTR_SIZE_VER9 (144 bytes). Older kernels accept the
// longer structure as long as what they do not know is zero, and otherwise answer E2BIG.
//
// golang.org/x/sys/unix.PerfEventAttr ends at sig_data, which is why this one exists.
type Attr struct {
	Type             uint32
	Size             uint32 // filled in by Open
	Config           uint64
	Sample           uint64 // sample_period, or sample_freq with the flag Freq
	SampleType       uint64
	ReadFormat       uint64
	Flags            Flags
	Wakeup           uint32 // wakeup_events: samples; or wakeup_watermark with the flag Watermark: bytes of records of any type
	BpType           uint32
	Config1          uint64 // bp_addr, kprobe_func, uprobe_path
	Config2          uint64 // bp_len, kprobe_addr, probe_offset
	BranchSampleType uint64
	SampleRegsUser   uint64
	SampleStackUser  uint32
	ClockID          int32
	SampleRegsIntr   uint64
	AuxWatermark     uint32
	SampleMaxStack   uint16
	_                uint16
	AuxSampleSize    uint32
	AuxAction        uint32
	SigData          uint64
	Config3          uint64 // Linux 6.3
	Config4          uint64 // Linux 6.18
}

// Types of events: enum perf_type_id. PMUs found in sysfs have a number of their own.
const (
	TypeHardware   = unix.PERF_TYPE_HARDWARE
	TypeSoftware   = unix.PERF_TYPE_SOFTWARE
	TypeTracepoint = unix.PERF_TYPE_TRACEPOINT
	TypeHWCache    = unix.PERF_TYPE_HW_CACHE
	TypeRaw        = unix.PERF_TYPE_RAW
	TypeBreakpoint = unix.PERF_TYPE_BREAKPOINT
)

// PMUTypeShift is where a hardware or cache event names the PMU that is meant, on machines with
// several kinds of cores (PERF_PMU_TYPE_SHIFT, Linux 5.13 on x86, 6.2 on arm64).
const PMUTypeShift = 32

// Flags are the one-bit fields of struct perf_event_attr.
type Flags uint64

// The flags that bperf sets, in the order of the structure.
const (
	Disabled               Flags = Flags(unix.PerfBitDisabled)
	Inherit                Flags = Flags(unix.PerfBitInherit)
	Pinned                 Flags = Flags(unix.PerfBitPinned)
	Exclusive              Flags = Flags(unix.PerfBitExclusive)
	ExcludeUser            Flags = Flags(unix.PerfBitExcludeUser)
	ExcludeKernel          Flags = Flags(unix.PerfBitExcludeKernel)
	ExcludeHV              Flags = Flags(unix.PerfBitExcludeHv)
	ExcludeIdle            Flags = Flags(unix.PerfBitExcludeIdle)
	Mmap                   Flags = Flags(unix.PerfBitMmap) // records of executable memory that is mapped
	Comm                   Flags = Flags(unix.PerfBitComm) // records of new names of threads
	Freq                   Flags = Flags(unix.PerfBitFreq)
	InheritStat            Flags = Flags(unix.PerfBitInheritStat) // records of what each thread has counted when it ends
	EnableOnExec           Flags = Flags(unix.PerfBitEnableOnExec)
	Task                   Flags = Flags(unix.PerfBitTask) // records of forks and exits
	Watermark              Flags = Flags(unix.PerfBitWatermark)
	PreciseIPBit1          Flags = Flags(unix.PerfBitPreciseIPBit1)
	PreciseIPBit2          Flags = Flags(unix.PerfBitPreciseIPBit2)
	MmapData               Flags = Flags(unix.PerfBitMmapData) // records of other memory that is mapped
	SampleIDAll            Flags = Flags(unix.PerfBitSampleIDAll)
	ExcludeHost            Flags = Flags(unix.PerfBitExcludeHost)
	ExcludeGuest           Flags = Flags(unix.PerfBitExcludeGuest)
	ExcludeCallchainKernel Flags = Flags(unix.PerfBitExcludeCallchainKernel)
	ExcludeCallchainUser   Flags = Flags(unix.PerfBitExcludeCallchainUser)
	Mmap2                  Flags = Flags(unix.PerfBitMmap2)    // with inodes and protection
	CommExec               Flags = Flags(unix.PerfBitCommExec) // marks names that are new because of execve(2)
	UseClockID             Flags = Flags(unix.PerfBitUseClockID)
	ContextSwitch          Flags = Flags(unix.PerfBitContextSwitch)
	WriteBackward          Flags = Flags(unix.PerfBitWriteBackward)
	Namespaces             Flags = 1 << 28 // records of the namespaces of new processes, Linux 4.12
	KSymbols               Flags = 1 << 29 // ksymbol: records of code of the kernel, Linux 5.1
	BPFEvents              Flags = 1 << 30 // bpf_event: records of BPF programs, Linux 5.1
	Cgroups                Flags = 1 << 32 // cgroup: records of new cgroups, Linux 5.7
	BuildIDs               Flags = 1 << 34 // build_id: in records of Mmap2, Linux 5.12
	InheritThread          Flags = 1 << 35 // children inherit only if they are threads, Linux 5.13
)

// Has reports whether all of f are set.
func (a *Attr) Has(f Flags) bool { return a.Flags&f == f }

// Events of the type TypeSoftware: enum perf_sw_ids. The clocks count ns.
const (
	SoftwareCPUClock        = unix.PERF_COUNT_SW_CPU_CLOCK
	SoftwareTaskClock       = unix.PERF_COUNT_SW_TASK_CLOCK
	SoftwarePageFaults      = unix.PERF_COUNT_SW_PAGE_FAULTS
	SoftwareContextSwitches = unix.PERF_COUNT_SW_CONTEXT_SWITCHES
	SoftwareCPUMigrations   = unix.PERF_COUNT_SW_CPU_MIGRATIONS
	SoftwareDummy           = unix.PERF_COUNT_SW_DUMMY
	SoftwareBPFOutput       = unix.PERF_COUNT_SW_BPF_OUTPUT
	SoftwareCgroupSwitches  = 11 // PERF_COUNT_SW_CGROUP_SWITCHES, Linux 5.13
)

// What a sample has: enum perf_event_sample_format.
const (
	SampleIP           = unix.PERF_SAMPLE_IP
	SampleTID          = unix.PERF_SAMPLE_TID
	SampleTime         = unix.PERF_SAMPLE_TIME
	SampleAddr         = unix.PERF_SAMPLE_ADDR
	SampleRead         = unix.PERF_SAMPLE_READ
	SampleCallchain    = unix.PERF_SAMPLE_CALLCHAIN
	SampleID           = unix.PERF_SAMPLE_ID
	SampleCPU          = unix.PERF_SAMPLE_CPU
	SamplePeriod       = unix.PERF_SAMPLE_PERIOD
	SampleStreamID     = unix.PERF_SAMPLE_STREAM_ID
	SampleRaw          = unix.PERF_SAMPLE_RAW
	SampleBranchStack  = unix.PERF_SAMPLE_BRANCH_STACK
	SampleRegsUser     = unix.PERF_SAMPLE_REGS_USER
	SampleStackUser    = unix.PERF_SAMPLE_STACK_USER
	SampleWeight       = unix.PERF_SAMPLE_WEIGHT
	SampleDataSrc      = unix.PERF_SAMPLE_DATA_SRC
	SampleIdentifier   = unix.PERF_SAMPLE_IDENTIFIER // the ID, where it is found in every record without knowing the event
	SampleTransaction  = unix.PERF_SAMPLE_TRANSACTION
	SampleRegsIntr     = unix.PERF_SAMPLE_REGS_INTR
	SamplePhysAddr     = unix.PERF_SAMPLE_PHYS_ADDR
	SampleAux          = unix.PERF_SAMPLE_AUX
	SampleCgroup       = unix.PERF_SAMPLE_CGROUP         // Linux 5.7
	SampleDataPageSize = unix.PERF_SAMPLE_DATA_PAGE_SIZE // Linux 5.11
	SampleCodePageSize = unix.PERF_SAMPLE_CODE_PAGE_SIZE // Linux 5.11
	SampleWeightStruct = unix.PERF_SAMPLE_WEIGHT_STRUCT  // Linux 5.12
)

// Branches to be recorded: enum perf_branch_sample_type.
const (
	BranchUser      = unix.PERF_SAMPLE_BRANCH_USER
	BranchKernel    = unix.PERF_SAMPLE_BRANCH_KERNEL
	BranchHV        = unix.PERF_SAMPLE_BRANCH_HV
	BranchAny       = unix.PERF_SAMPLE_BRANCH_ANY
	BranchAnyCall   = unix.PERF_SAMPLE_BRANCH_ANY_CALL
	BranchAnyReturn = unix.PERF_SAMPLE_BRANCH_ANY_RETURN
	BranchIndCall   = unix.PERF_SAMPLE_BRANCH_IND_CALL
	BranchAbortTx   = unix.PERF_SAMPLE_BRANCH_ABORT_TX
	BranchInTx      = unix.PERF_SAMPLE_BRANCH_IN_TX
	BranchNoTx      = unix.PERF_SAMPLE_BRANCH_NO_TX
	BranchCond      = unix.PERF_SAMPLE_BRANCH_COND
	BranchCallStack = unix.PERF_SAMPLE_BRANCH_CALL_STACK
	BranchIndJump   = unix.PERF_SAMPLE_BRANCH_IND_JUMP
	BranchCall      = unix.PERF_SAMPLE_BRANCH_CALL
	BranchNoFlags   = unix.PERF_SAMPLE_BRANCH_NO_FLAGS
	BranchNoCycles  = unix.PERF_SAMPLE_BRANCH_NO_CYCLES
	BranchTypeSave  = unix.PERF_SAMPLE_BRANCH_TYPE_SAVE
	BranchHWIndex   = unix.PERF_SAMPLE_BRANCH_HW_INDEX
	BranchPrivSave  = 1 << 18 // Linux 6.1
	BranchCounters  = 1 << 19 // Linux 6.8
)
