package perfdata

import "strconv"

// RecordType is the type of a record. Types below 64 are the kernel's enum perf_event_type; types from 64 on are perf's enum
// perf_user_event_type.
type RecordType uint32

// Records of the kernel.
const (
	RecordMmap              RecordType = 1
	RecordLost              RecordType = 2
	RecordComm              RecordType = 3
	RecordExit              RecordType = 4
	RecordThrottle          RecordType = 5
	RecordUnthrottle        RecordType = 6
	RecordFork              RecordType = 7
	RecordRead              RecordType = 8
	RecordSample            RecordType = 9
	RecordMmap2             RecordType = 10 // Linux 3.12
	RecordAux               RecordType = 11 // Linux 4.1
	RecordITraceStart       RecordType = 12 // Linux 4.1
	RecordLostSamples       RecordType = 13 // Linux 4.2
	RecordSwitch            RecordType = 14 // Linux 4.3
	RecordSwitchCPUWide     RecordType = 15 // Linux 4.3
	RecordNamespaces        RecordType = 16 // Linux 4.12
	RecordKSymbol           RecordType = 17 // Linux 5.1
	RecordBPFEvent          RecordType = 18 // Linux 5.1
	RecordCgroup            RecordType = 19 // Linux 5.7
	RecordTextPoke          RecordType = 20 // Linux 5.9
	RecordAuxOutputHWID     RecordType = 21 // Linux 5.16
	RecordCallchainDeferred RecordType = 22 // Linux 6.19
)

// Records of perf. They have no time, and a Reader does not reorder them.
const (
	RecordHeaderAttr        RecordType = 64
	RecordHeaderEventType   RecordType = 65 // not written since perf 3.1
	RecordHeaderTracingData RecordType = 66
	RecordHeaderBuildID     RecordType = 67
	RecordFinishedRound     RecordType = 68
	RecordIDIndex           RecordType = 69
	RecordAuxtraceInfo      RecordType = 70
	RecordAuxtrace          RecordType = 71
	RecordAuxtraceError     RecordType = 72
	RecordThreadMap         RecordType = 73
	RecordCPUMap            RecordType = 74
	RecordStatConfig        RecordType = 75
	RecordStat              RecordType = 76
	RecordStatRound         RecordType = 77
	RecordEventUpdate       RecordType = 78
	RecordTimeConv          RecordType = 79
	RecordHeaderFeature     RecordType = 80
	RecordCompressed        RecordType = 81 // perf 5.2
	RecordFinishedInit      RecordType = 82 // perf 6.0
	RecordCompressed2       RecordType = 83 // perf 6.16
	RecordBPFMetadata       RecordType = 84 // perf 6.17
	RecordSchedstatCPU      RecordType = 85 // perf 7.0
	RecordSchedstatDomain   RecordType = 86 // perf 7.0
)

const firstUserRecord RecordType = 64 // PERF_RECORD_USER_TYPE_START

var recordNames = map[RecordType]string{
	RecordMmap: "MMAP", RecordLost: "LOST", RecordComm: "COMM", RecordExit: "EXIT", RecordThrottle: "THROTTLE",
	RecordUnthrottle: "UNTHROTTLE", RecordFork: "FORK", RecordRead: "READ", RecordSample: "SAMPLE", RecordMmap2: "MMAP2",
	RecordAux: "AUX", RecordITraceStart: "ITRACE_START", RecordLostSamples: "LOST_SAMPLES", RecordSwitch: "SWITCH",
	RecordSwitchCPUWide: "SWITCH_CPU_WIDE", RecordNamespaces: "NAMESPACES", RecordKSymbol: "KSYMBOL",
	RecordBPFEvent: "BPF_EVENT", RecordCgroup: "CGROUP", RecordTextPoke: "TEXT_POKE",
	RecordAuxOutputHWID: "AUX_OUTPUT_HW_ID", RecordCallchainDeferred: "CALLCHAIN_DEFERRED",

	RecordHeaderAttr: "ATTR", RecordHeaderEventType: "EVENT_TYPE", RecordHeaderTracingData: "TRACING_DATA",
	RecordHeaderBuildID: "BUILD_ID", RecordFinishedRound: "FINISHED_ROUND", RecordIDIndex: "ID_INDEX",
	RecordAuxtraceInfo: "AUXTRACE_INFO", RecordAuxtrace: "AUXTRACE", RecordAuxtraceError: "AUXTRACE_ERROR",
	RecordThreadMap: "THREAD_MAP", RecordCPUMap: "CPU_MAP", RecordStatConfig: "STAT_CONFIG", RecordStat: "STAT",
	RecordStatRound: "STAT_ROUND", RecordEventUpdate: "EVENT_UPDATE", RecordTimeConv: "TIME_CONV",
	RecordHeaderFeature: "FEATURE", RecordCompressed: "COMPRESSED", RecordFinishedInit: "FINISHED_INIT",
	RecordCompressed2: "COMPRESSED2", RecordBPFMetadata: "BPF_METADATA", RecordSchedstatCPU: "SCHEDSTAT_CPU",
	RecordSchedstatDomain: "SCHEDSTAT_DOMAIN",
}

// String returns perf's name of the type, for example MMAP2 or KSYMBOL. It returns the number of an unknown type.
func (t RecordType) String() string {
	if name, known := recordNames[t]; known {
		return name
	}
	return strconv.FormatUint(uint64(t), 10)
}

// Misc is the field misc of struct perf_event_header. The meaning of bits 12 and up depends on the type of the record. If the record's Value
// has a field for such a bit, a Reader sets the field, and a Writer sets the bit from the field.
type Misc uint16

// CPUMode returns the mode that the CPU was in, or the mode that the record's memory or code belongs to: MiscUnknown to MiscGuestUser.
func (m Misc) CPUMode() Misc { return m & 7 }

// The values of CPUMode, and bits for each type of record.
const (
	MiscUnknown     Misc = 0
	MiscKernel      Misc = 1
	MiscUser        Misc = 2
	MiscHypervisor  Misc = 3
	MiscGuestKernel Misc = 4
	MiscGuestUser   Misc = 5

	MiscProcMapParseTimeout Misc = 1 << 12 // MMAP, MMAP2: perf gave up reading /proc/PID/maps (set by perf, not by the kernel)
	MiscMmapData            Misc = 1 << 13 // MMAP, MMAP2: the memory is not executable
	MiscCommExec            Misc = 1 << 13 // COMM: execve(2) changed the name
	MiscForkExec            Misc = 1 << 13 // FORK: set by perf, not by the kernel
	MiscSwitchOut           Misc = 1 << 13 // SWITCH, SWITCH_CPU_WIDE: the task left the CPU
	MiscExactIP             Misc = 1 << 14 // SAMPLE: IP is the instruction that caused the sample
	MiscSwitchOutPreempt    Misc = 1 << 14 // SWITCH, SWITCH_CPU_WIDE: the task was still runnable
	MiscMmapBuildID         Misc = 1 << 14 // MMAP2: the record has a build ID instead of device and inode
	MiscBuildIDSize         Misc = 1 << 15 // BUILD_ID: the record has the size of the build ID (set by perf, not by the kernel)
	MiscLostSamplesBPF      Misc = 1 << 15 // LOST_SAMPLES: a filter dropped the samples (set by perf, not by the kernel)
)
