package perfdata

import "strconv"

// FeatureID is the number of a feature section: HEADER_… in tools/perf/util/header.h.
type FeatureID uint32

// The features, with the type of their value.
const (
	FeatureTracingData    FeatureID = 1  // TracingData
	FeatureBuildID        FeatureID = 2  // BuildIDs
	FeatureHostname       FeatureID = 3  // Text
	FeatureOSRelease      FeatureID = 4  // Text
	FeatureVersion        FeatureID = 5  // Text: of perf
	FeatureArch           FeatureID = 6  // Text: uname -m
	FeatureNRCPUs         FeatureID = 7  // NRCPUs
	FeatureCPUDesc        FeatureID = 8  // Text: model name
	FeatureCPUID          FeatureID = 9  // Text: GenuineIntel,6,69,1
	FeatureTotalMem       FeatureID = 10 // TotalMem
	FeatureCmdline        FeatureID = 11 // CommandLine
	FeatureEventDesc      FeatureID = 12 // EventDescriptions
	FeatureCPUTopology    FeatureID = 13 // CPUTopology
	FeatureNUMATopology   FeatureID = 14 // NUMATopology
	FeatureBranchStack    FeatureID = 15 // Flag: samples have branch stacks
	FeaturePMUMappings    FeatureID = 16 // PMUMappings
	FeatureGroupDesc      FeatureID = 17 // GroupDescriptions
	FeatureAuxtrace       FeatureID = 18 // AuxtraceIndex
	FeatureStat           FeatureID = 19 // Flag: made by perf stat record
	FeatureCache          FeatureID = 20 // Caches
	FeatureSampleTime     FeatureID = 21 // SampleTimes
	FeatureMemTopology    FeatureID = 22 // MemTopology
	FeatureClockID        FeatureID = 23 // ClockResolution
	FeatureDirFormat      FeatureID = 24 // DirFormat
	FeatureBPFProgInfo    FeatureID = 25 // Opaque, for internal/bpfprog/linear
	FeatureBPFBTF         FeatureID = 26 // Opaque, for internal/bpfprog/linear
	FeatureCompressed     FeatureID = 27 // Compression
	FeatureCPUPMUCaps     FeatureID = 28 // CPUPMUCaps
	FeatureClockData      FeatureID = 29 // ClockData
	FeatureHybridTopology FeatureID = 30 // HybridTopology
	FeaturePMUCaps        FeatureID = 31 // PMUCaps; before perf 6.1 HYBRID_CPU_PMU_CAPS, which is alike
	FeatureCPUDomainInfo  FeatureID = 32 // Opaque. perf 7.0
	FeatureEMachine       FeatureID = 33 // EMachine. perf 7.1
	FeatureCLNSize        FeatureID = 34 // Opaque. perf 7.1
)

const maxFeatures = 256 // HEADER_FEAT_BITS

var featureNames = map[FeatureID]string{
	FeatureTracingData: "TRACING_DATA", FeatureBuildID: "BUILD_ID", FeatureHostname: "HOSTNAME", FeatureOSRelease: "OSRELEASE",
	FeatureVersion: "VERSION", FeatureArch: "ARCH", FeatureNRCPUs: "NRCPUS", FeatureCPUDesc: "CPUDESC", FeatureCPUID: "CPUID",
	FeatureTotalMem: "TOTAL_MEM", FeatureCmdline: "CMDLINE", FeatureEventDesc: "EVENT_DESC",
	FeatureCPUTopology: "CPU_TOPOLOGY", FeatureNUMATopology: "NUMA_TOPOLOGY", FeatureBranchStack: "BRANCH_STACK",
	FeaturePMUMappings: "PMU_MAPPINGS", FeatureGroupDesc: "GROUP_DESC", FeatureAuxtrace: "AUXTRACE", FeatureStat: "STAT",
	FeatureCache: "CACHE", FeatureSampleTime: "SAMPLE_TIME", FeatureMemTopology: "MEM_TOPOLOGY", FeatureClockID: "CLOCKID",
	FeatureDirFormat: "DIR_FORMAT", FeatureBPFProgInfo: "BPF_PROG_INFO", FeatureBPFBTF: "BPF_BTF",
	FeatureCompressed: "COMPRESSED", FeatureCPUPMUCaps: "CPU_PMU_CAPS", FeatureClockData: "CLOCK_DATA",
	FeatureHybridTopology: "HYBRID_TOPOLOGY", FeaturePMUCaps: "PMU_CAPS", FeatureCPUDomainInfo: "CPU_DOMAIN_INFO",
	FeatureEMachine: "E_MACHINE", FeatureCLNSize: "CLN_SIZE",
}

// String returns the name that perf gives the feature, and the number of one that is not known.
func (id FeatureID) String() string {
	if name, known := featureNames[id]; known {
		return name
	}
	return strconv.FormatUint(uint64(id), 10)
}

// FeatureValue is one of the types that are named beside the FeatureIDs; Opaque is the value of all other features.
type FeatureValue interface {
	code(k *coder) FeatureValue // writes the feature, or returns one that was read
}

// Opaque is a feature as it is in the file, in the file's byte order.
type Opaque []byte

// Flag is a feature without content.
type Flag struct{}

// Text is a string.
type Text string

// NRCPUs are the numbers of CPUs.
type NRCPUs struct {
	Available uint32 // those that may come online, too
	Online    uint32
}

// TotalMem is the machine's memory in KiB.
type TotalMem uint64

// CommandLine are the arguments with which it was recorded, the program first.
type CommandLine []string

// TracingData are the formats of the tracepoints, as in the file trace.dat of trace-cmd.
type TracingData []byte

// BuildIDs are those of the files that samples hit, and of the kernel.
type BuildIDs []HeaderBuildID

// EventDescriptions are the events with their names.
type EventDescriptions []EventDescription

// EventDescription is of one event.
type EventDescription struct {
	Attr Attr
	Name string
	IDs  []uint64
}

// CPUTopology says which CPUs are in the same package, core and die.
type CPUTopology struct {
	Packages []string // lists of the CPUs of each, as 0-3,8
	Cores    []string // lists of the CPUs of each
	CPUs     []CPUPlace
	Dies     []string // lists of the CPUs of each; none before perf 5.3
}

// CPUPlace is where a CPU is.
type CPUPlace struct {
	Core   uint32
	Socket uint32
	Die    uint32 // with CPUTopology.Dies
}

// NUMATopology are the nodes of memory.
type NUMATopology []NUMANode

// NUMANode is one of them.
type NUMANode struct {
	Node     uint32
	MemTotal uint64 // KiB
	MemFree  uint64 // KiB
	CPUs     string // as 0-3,8
}

// PMUMappings are the numbers of PMUs: Attr.Type.
type PMUMappings []PMUMapping

// PMUMapping is one of them.
type PMUMapping struct {
	Type uint32
	Name string
}

// GroupDescriptions are the groups of events, of more than one.
type GroupDescriptions []GroupDescription

// GroupDescription is one of them.
type GroupDescription struct {
	Name    string // {anon_group} if it was given none
	Leader  uint32 // index of the event
	Members uint32 // with the leader; the others follow it
}

// AuxtraceIndex are the places of AUXTRACE records in the file.
type AuxtraceIndex []AuxtraceIndexEntry

// AuxtraceIndexEntry is one of them.
type AuxtraceIndexEntry struct {
	Offset uint64
	Size   uint64
}

// Caches are those of the CPUs.
type Caches []Cache

// Cache is one of them, as in /sys/devices/system/cpu/cpu*/cache.
type Cache struct {
	Level    uint32
	LineSize uint32 // bytes
	Sets     uint32
	Ways     uint32
	Type     string // Data, Instruction, Unified
	Size     string // as 32K
	CPUs     string // that share it, as 0-3,8
}

// SampleTimes are the times of the first and the last sample, in ns of the event's clock.
type SampleTimes struct {
	First, Last uint64
}

// MemTopology says which memory blocks are on which node.
type MemTopology struct {
	BlockSize uint64 // bytes
	Nodes     []MemNode
}

// MemNode is one node.
type MemNode struct {
	Node   uint64
	Size   uint64   // number of blocks, with those of other nodes among them
	Blocks []uint64 // a bitmap
}

// ClockResolution is that of the clock that was asked for with -k, in ns.
type ClockResolution uint64

// DirFormat is the version of the layout of a directory.
type DirFormat uint64

// Compression is how COMPRESSED records were made.
type Compression struct {
	Version uint32 // 1
	Type    uint32 // 1: zstd
	Level   uint32
	Ratio   uint32 // rounded
	MmapLen uint32 // bytes: no record is decompressed to more
}

// CPUPMUCaps are the capabilities of the PMU cpu.
type CPUPMUCaps []PMUCap

// PMUCap is one of them.
type PMUCap struct {
	Name, Value string
}

// PMUCaps are the capabilities of the other PMUs, and with hybrid CPUs of theirs.
type PMUCaps []OnePMUCaps

// OnePMUCaps are those of one PMU.
type OnePMUCaps struct {
	Caps []PMUCap
	PMU  string
}

// ClockData is one moment on two clocks.
type ClockData struct {
	ClockID   uint32 // of the events: CLOCK_…
	WallClock uint64 // ns since 1970
	Clock     uint64 // ns of ClockID
}

// HybridTopology says which CPUs are of which kind.
type HybridTopology []HybridPMU

// HybridPMU is one kind.
type HybridPMU struct {
	PMU  string
	CPUs string // as 0-3,8
}

// EMachine is the ELF header's idea of the machine.
type EMachine struct {
	Machine uint32 // EM_…
	Flags   uint32 // EF_…
}
