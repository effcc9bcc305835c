package perfdata

import "strconv"

// FeatureID identifies a feature: HEADER_… in tools/perf/util/header.h.
type FeatureID uint32

// The features. Each comment begins with the type of the feature's value.
const (
	FeatureTracingData    FeatureID = 1  // TracingData
	FeatureBuildID        FeatureID = 2  // BuildIDs
	FeatureHostname       FeatureID = 3  // Text
	FeatureOSRelease      FeatureID = 4  // Text
	FeatureVersion        FeatureID = 5  // Text: perf's version
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
	FeatureBPFProgInfo    FeatureID = 25 // Opaque; bperf decodes it in internal/bpfprog/linear
	FeatureBPFBTF         FeatureID = 26 // Opaque; bperf decodes it in internal/bpfprog/linear
	FeatureCompressed     FeatureID = 27 // Compression
	FeatureCPUPMUCaps     FeatureID = 28 // CPUPMUCaps
	FeatureClockData      FeatureID = 29 // ClockData
	FeatureHybridTopology FeatureID = 30 // HybridTopology
	FeaturePMUCaps        FeatureID = 31 // PMUCaps; before perf 6.1 HYBRID_CPU_PMU_CAPS, which has the same format
	FeatureCPUDomainInfo  FeatureID = 32 // Opaque. perf 7.0
	FeatureEMachine       FeatureID = 33 // EMachine. perf 7.1
	FeatureCLNSize        FeatureID = 34 // CacheLineSize. perf 7.1
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

// String returns perf's name of the feature. It returns the number of an unknown feature.
func (id FeatureID) String() string {
	if name, known := featureNames[id]; known {
		return name
	}
	return strconv.FormatUint(uint64(id), 10)
}

// FeatureValue is the decoded value of a feature. The comment of each FeatureID constant names its type; other features have an Opaque.
type FeatureValue interface {
	code(k *coder) FeatureValue // writes the feature, or returns one that was read
}

// Opaque is an undecoded feature, in the file's byte order.
type Opaque []byte

// Flag is a feature without content.
type Flag struct{}

// Text is a feature that is a string.
type Text string

// NRCPUs is the number of the machine's CPUs.
type NRCPUs struct {
	Available uint32 // including CPUs that are offline and can come online
	Online    uint32
}

// TotalMem is the size of the machine's memory in KiB.
type TotalMem uint64

// CommandLine is the command line of the recording program, including the program itself.
type CommandLine []string

// TracingData holds the formats of the tracepoints, in the format of trace-cmd's file trace.dat.
type TracingData []byte

// BuildIDs are the build IDs of the files that have samples, and of the kernel.
type BuildIDs []HeaderBuildID

// EventDescriptions are the events with their names.
type EventDescriptions []EventDescription

// EventDescription describes one event.
type EventDescription struct {
	Attr Attr
	Name string
	IDs  []uint64
}

// CPUTopology is the arrangement of CPUs in packages, cores and dies.
type CPUTopology struct {
	Packages []string   // the CPUs of each package, for example 0-3,8
	Cores    []string   // the CPUs of each core
	CPUs     []CPUPlace // indexed by CPU
	Dies     []string   // the CPUs of each die; none before perf 5.3
}

// CPUPlace is the core, socket and die of a CPU.
type CPUPlace struct {
	Core   uint32
	Socket uint32
	Die    uint32 // only with CPUTopology.Dies
}

// NUMATopology is the list of NUMA nodes.
type NUMATopology []NUMANode

// NUMANode is one NUMA node.
type NUMANode struct {
	Node     uint32
	MemTotal uint64 // KiB
	MemFree  uint64 // KiB
	CPUs     string // for example 0-3,8
}

// PMUMappings map PMU types, which Attr.Type has, to names.
type PMUMappings []PMUMapping

// PMUMapping is the type and the name of one PMU.
type PMUMapping struct {
	Type uint32
	Name string
}

// GroupDescriptions are the event groups with more than one member.
type GroupDescriptions []GroupDescription

// GroupDescription describes one event group.
type GroupDescription struct {
	Name    string // {anon_group} for a group without a name
	Leader  uint32 // index of the leader among the events
	Members uint32 // including the leader; the others follow it among the events
}

// Disjoint returns the groups of a recording with this number of events, each with its members among them. It leaves out what is no group
// then, and groups that begin within an earlier one: so each event is in one group at most.
func (g GroupDescriptions) Disjoint(events int) GroupDescriptions {
	var groups GroupDescriptions
	var end uint64
	for _, group := range g {
		first := uint64(group.Leader)
		next := min(first+uint64(group.Members), uint64(events))
		if first < end || next < first+2 {
			continue
		}
		group.Members, end = uint32(next-first), next
		groups = append(groups, group)
	}
	return groups
}

// AuxtraceIndex lists the AUXTRACE records of the file.
type AuxtraceIndex []AuxtraceIndexEntry

// AuxtraceIndexEntry is the offset and the size of one AUXTRACE record, in bytes.
type AuxtraceIndexEntry struct {
	Offset uint64
	Size   uint64
}

// Caches are the caches of the CPUs.
type Caches []Cache

// Cache describes one cache, with the values of /sys/devices/system/cpu/cpu*/cache.
type Cache struct {
	Level    uint32
	LineSize uint32 // bytes
	Sets     uint32
	Ways     uint32
	Type     string // Data, Instruction, Unified
	Size     string // for example 32K
	CPUs     string // the CPUs that share it, for example 0-3,8
}

// SampleTimes are the times of the first and the last sample, in ns of the event's clock.
type SampleTimes struct {
	First, Last uint64
}

// MemTopology maps memory blocks to nodes.
type MemTopology struct {
	BlockSize uint64 // bytes
	Nodes     []MemNode
}

// MemNode lists the memory blocks of one node.
type MemNode struct {
	Node   uint64
	Size   uint64   // number of bits in Blocks, including blocks of other nodes
	Blocks []uint64 // a bitmap of the node's blocks
}

// ClockResolution is the resolution in ns of the clock that perf record -k selected.
type ClockResolution uint64

// DirFormat is the version of a directory recording's layout.
type DirFormat uint64

// Compression describes how COMPRESSED records are compressed.
type Compression struct {
	Version uint32 // 1
	Type    uint32 // 1: zstd
	Level   uint32
	Ratio   uint32 // rounded
	MmapLen uint32 // the largest size of a decompressed record, in bytes
}

// CPUPMUCaps are the capabilities of the PMU named cpu.
type CPUPMUCaps []PMUCap

// PMUCap is one capability of a PMU.
type PMUCap struct {
	Name, Value string
}

// PMUCaps are the capabilities of PMUs other than cpu, including the core PMUs of hybrid CPUs.
type PMUCaps []OnePMUCaps

// OnePMUCaps are the capabilities of one PMU.
type OnePMUCaps struct {
	Caps []PMUCap
	PMU  string
}

// ClockData is the same moment on two clocks. It relates the times of records to the wall clock.
type ClockData struct {
	ClockID   uint32 // the clock of the events: CLOCK_…
	WallClock uint64 // ns since 1970
	Clock     uint64 // time of ClockID in ns
}

// HybridTopology lists the CPUs of each core PMU of a hybrid machine.
type HybridTopology []HybridPMU

// HybridPMU is one core PMU and its CPUs.
type HybridPMU struct {
	PMU  string
	CPUs string // for example 0-3,8
}

// CacheLineSize is the size of a cache line in bytes.
type CacheLineSize uint32

// EMachine is the machine as the ELF header encodes it: e_machine and e_flags.
type EMachine struct {
	Machine uint32 // EM_…
	Flags   uint32 // EF_…
}
