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
	Disabled      Flags = Flags(unix.PerfBitDisabled)
	Inherit       Flags = Flags(unix.PerfBitInherit)
	Pinned        Flags = Flags(unix.PerfBitPinned)
	Exclusive     Flags = Flags(unix.PerfBitExclusive)
	ExcludeUser   Flags = Flags(unix.PerfBitExcludeUser)
	ExcludeKernel Flags = Flags(unix.PerfBitExcludeKernel)
	ExcludeHV     Flags = Flags(unix.PerfBitExcludeHv)
	ExcludeIdle   Flags = Flags(unix.PerfBitExcludeIdle)
	Freq          Flags = Flags(unix.PerfBitFreq)
	EnableOnExec  Flags = Flags(unix.PerfBitEnableOnExec)
	Watermark     Flags = Flags(unix.PerfBitWatermark)
	PreciseIPBit1 Flags = Flags(unix.PerfBitPreciseIPBit1)
	PreciseIPBit2 Flags = Flags(unix.PerfBitPreciseIPBit2)
	SampleIDAll   Flags = Flags(unix.PerfBitSampleIDAll)
	ExcludeHost   Flags = Flags(unix.PerfBitExcludeHost)
	ExcludeGuest  Flags = Flags(unix.PerfBitExcludeGuest)
	UseClockID    Flags = Flags(unix.PerfBitUseClockID)
	KSymbols      Flags = 1 << 29 // ksymbol: records of code of the kernel, Linux 5.1
	BPFEvents     Flags = 1 << 30 // bpf_event: records of BPF programs, Linux 5.1
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
	SoftwareCgroupSwitches  = 11 // PERF_COUNT_SW_CGROUP_SWITCHES, Linux 5.13
)

// What a sample has, in the order of the record: enum perf_event_sample_format, as far as it is used.
const (
	SampleIP   = unix.PERF_SAMPLE_IP
	SampleTID  = unix.PERF_SAMPLE_TID
	SampleTime = unix.PERF_SAMPLE_TIME
)
