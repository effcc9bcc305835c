package perfdata

import "strconv"

// RecordType is what a record is of: enum perf_event_type of the kernel below 64, enum perf_user_event_type of perf from 64 on.
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

// Records of perf. They have no time and are given where they stand.
const (
	RecordHeaderAttr        RecordType = 64
	RecordHeaderEventType   RecordType = 65 // not written since perf 3.0
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
	RecordFinishedInit      RecordType = 82 // perf 5.20
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

// String returns the name that perf gives the type, as in MMAP2 or KSYMBOL, and the number of one that is not known.
func (t RecordType) String() string {
	if name, known := recordNames[t]; known {
		return name
	}
	return strconv.FormatUint(uint64(t), 10)
}

// Misc is the field misc of struct perf_event_header. Its bits from 12 up mean something else for each type; where there is a
// field for such a bit in the type of a record, that field is set and, for writing, sets the bit.
type Misc uint16

// CPUMode is where the CPU was, or whose memory or code a record is of.
func (m Misc) CPUMode() Misc { return m & 7 }

// The values of CPUMode, and bits for each type of record.
const (
	MiscUnknown     Misc = 0
	MiscKernel      Misc = 1
	MiscUser        Misc = 2
	MiscHypervisor  Misc = 3
	MiscGuestKernel Misc = 4
	MiscGuestUser   Misc = 5

	MiscProcMapParseTimeout Misc = 1 << 12 // reading /proc/PID/maps was given up: perf's own, in MMAP and MMAP2
	MiscMmapData            Misc = 1 << 13 // MMAP, MMAP2: not executable
	MiscCommExec            Misc = 1 << 13 // COMM: by execve(2)
	MiscForkExec            Misc = 1 << 13 // FORK: perf's own
	MiscSwitchOut           Misc = 1 << 13 // SWITCH, SWITCH_CPU_WIDE
	MiscExactIP             Misc = 1 << 14 // SAMPLE: the IP is that of the instruction that caused it
	MiscSwitchOutPreempt    Misc = 1 << 14 // SWITCH, SWITCH_CPU_WIDE: while still runnable
	MiscMmapBuildID         Misc = 1 << 14 // MMAP2
	MiscBuildIDSize         Misc = 1 << 15 // BUILD_ID: perf's own, its size is told
	MiscLostSamplesBPF      Misc = 1 << 15 // LOST_SAMPLES: perf's own, dropped by a filter
)
