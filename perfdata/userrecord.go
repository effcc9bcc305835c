package perfdata

// HeaderAttr is PERF_RECORD_HEADER_ATTR: an event of the recording, in pipes.
type HeaderAttr struct {
	Attr Attr
	IDs  []uint64
}

// EventUpdate is PERF_RECORD_EVENT_UPDATE: more about an event. One of Unit, Scale, Name, CPUs is meant, as Kind says.
type EventUpdate struct {
	Kind  uint64 // EventUpdate…
	ID    uint64 // the first ID of the event
	Unit  string
	Scale float64
	Name  string
	CPUs  CPUMap
}

// The kinds of EventUpdate: PERF_EVENT_UPDATE__….
const (
	EventUpdateUnit  = 0
	EventUpdateScale = 1
	EventUpdateName  = 2
	EventUpdateCPUs  = 3
)

// HeaderEventType is PERF_RECORD_HEADER_EVENT_TYPE, of perf before 3.1.
type HeaderEventType struct {
	ID   uint64
	Name string
}

// HeaderTracingData is PERF_RECORD_HEADER_TRACING_DATA: the formats of tracepoints follow, in pipes. The reader makes the feature
// FeatureTracingData of them.
type HeaderTracingData struct {
	Size uint32 // bytes, a multiple of 8
}

// HeaderBuildID is PERF_RECORD_HEADER_BUILD_ID, and an entry of the feature FeatureBuildID: the build ID of a file.
type HeaderBuildID struct {
	Misc     Misc
	PID      int32  // -1 for the host
	BuildID  []byte // at most 20 bytes
	Filename string
}

// FinishedRound is PERF_RECORD_FINISHED_ROUND: all rings were read once; nothing that follows is older than what was read in the round
// before.
type FinishedRound struct{}

// FinishedInit is PERF_RECORD_FINISHED_INIT: what existed before the recording has been told. perf 5.20.
type FinishedInit struct{}

// IDIndex is PERF_RECORD_ID_INDEX: what each ID was opened for.
type IDIndex struct {
	Entries []IDIndexEntry
	Guests  []IDIndexGuest // as many as Entries, or none. perf 6.0
}

// IDIndexEntry is struct id_index_entry.
type IDIndexEntry struct {
	ID    uint64
	Index uint64 // of the ring
	CPU   int64  // -1 if any
	TID   int64  // -1 if all
}

// IDIndexGuest is struct id_index_entry_2.
type IDIndexGuest struct {
	MachinePID uint64
	VCPU       uint64
}

// AuxtraceInfo is PERF_RECORD_AUXTRACE_INFO: how the AUX areas are to be decoded.
type AuxtraceInfo struct {
	Type uint32
	Priv []uint64 // depends on Type
}

// Auxtrace is PERF_RECORD_AUXTRACE: a piece of an AUX area. The piece itself follows the record in the file and is passed over.
type Auxtrace struct {
	Size       uint64 // bytes of the piece
	Offset     uint64 // in the AUX area
	Reference  uint64
	Index      uint32 // of the ring
	TID        int32
	CPU        int32
	DataOffset int64 // of the piece in the file
}

// AuxtraceError is PERF_RECORD_AUXTRACE_ERROR.
type AuxtraceError struct {
	Type       uint32
	Code       uint32
	CPU        int32
	PID, TID   int32
	Format     uint32 // 1 and more: there is a Time, 2: and a guest
	IP         uint64
	Time       uint64 // ns
	Message    string
	MachinePID int32
	VCPU       int32
}

// ThreadMap is PERF_RECORD_THREAD_MAP: the threads that were asked for.
type ThreadMap struct {
	Threads []MappedThread
}

// MappedThread is struct perf_record_thread_map_entry.
type MappedThread struct {
	TID  int64 // -1 for all
	Comm string
}

// CPUMap is PERF_RECORD_CPU_MAP: the CPUs that were asked for.
type CPUMap struct {
	Any  bool // "any CPU" is one of them: a CPU of -1
	CPUs []int
}

// StatConfig is PERF_RECORD_STAT_CONFIG: how perf stat was asked to count.
type StatConfig struct {
	Terms []StatConfigTerm
}

// StatConfigTerm is struct perf_record_stat_config_entry.
type StatConfigTerm struct {
	Tag   uint64 // PERF_STAT_CONFIG_TERM__…: 0 aggregation mode, 1 interval, 2 scale, 3 aggregation level
	Value uint64
}

// Stat is PERF_RECORD_STAT: a reading of perf stat.
type Stat struct {
	ID      uint64
	CPU     int32
	Thread  int32
	Value   uint64
	Enabled uint64 // ns
	Running uint64 // ns
}

// StatRound is PERF_RECORD_STAT_ROUND: an interval of perf stat ended, or all of it.
type StatRound struct {
	Type uint64 // 0 interval, 1 final
	Time uint64 // ns
}

// TimeConv is PERF_RECORD_TIME_CONV: how to turn the CPU's cycles into time, as in struct perf_event_mmap_page.
type TimeConv struct {
	Shift     uint64
	Mult      uint64
	Zero      uint64
	Cycles    uint64 // perf 5.11, as what follows
	Mask      uint64
	CapZero   bool
	CapShort  bool
	HasCycles bool // Cycles and what follows are there
}

// HeaderFeature is PERF_RECORD_HEADER_FEATURE: a feature of the header, in pipes.
type HeaderFeature struct {
	ID   FeatureID
	Data []byte
}

// BPFMetadata is PERF_RECORD_BPF_METADATA: the values of a program's variables bpf_metadata_…. perf 6.17.
type BPFMetadata struct {
	Program string
	Entries []BPFMetadataEntry
}

// BPFMetadataEntry is struct perf_record_bpf_metadata_entry.
type BPFMetadataEntry struct {
	Key   string // without "bpf_metadata_"
	Value string
}

// Unknown is a record of a type that is not known here, or whose content is not looked at (SCHEDSTAT_…).
type Unknown struct {
	Type RecordType
	Data []byte // what follows the header; valid no longer than the record
}
