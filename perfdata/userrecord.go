package perfdata

// HeaderAttr is PERF_RECORD_HEADER_ATTR: an event of the recording. Only pipes have it.
type HeaderAttr struct {
	Attr Attr
	IDs  []uint64
}

// EventUpdate is PERF_RECORD_EVENT_UPDATE: it sets one property of an event. Kind says which one of Unit, Scale, Name and CPUs is set.
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

// HeaderEventType is PERF_RECORD_HEADER_EVENT_TYPE: the name of an event, written by perf before 3.1.
type HeaderEventType struct {
	ID   uint64
	Name string
}

// HeaderTracingData is PERF_RECORD_HEADER_TRACING_DATA: the formats of tracepoints follow the record. Only pipes have it. The Reader returns
// the formats as FeatureTracingData.
type HeaderTracingData struct {
	Size uint32 // bytes, a multiple of 8
}

// HeaderBuildID is the build ID of a file: a record PERF_RECORD_HEADER_BUILD_ID, or an entry of FeatureBuildID.
type HeaderBuildID struct {
	Misc     Misc
	PID      int32  // -1 for the host
	BuildID  []byte // at most 20 bytes
	Filename string
}

// FinishedRound is PERF_RECORD_FINISHED_ROUND: the end of a round, in which perf read all rings once. No later record is older than the
// newest record up to the end of the previous round.
type FinishedRound struct{}

// FinishedInit is PERF_RECORD_FINISHED_INIT: the end of the records that describe what existed before the recording. perf 6.0.
type FinishedInit struct{}

// IDIndex is PERF_RECORD_ID_INDEX: the CPU and the thread that each event ID was opened for.
type IDIndex struct {
	Entries []IDIndexEntry
	Guests  []IDIndexGuest // one for each of Entries, or none. perf 6.0
}

// IDIndexEntry is struct id_index_entry.
type IDIndexEntry struct {
	ID    uint64
	Index uint64 // of the ring
	CPU   int64  // -1: any CPU
	TID   int64  // -1: all threads
}

// IDIndexGuest is struct id_index_entry_2.
type IDIndexGuest struct {
	MachinePID uint64
	VCPU       uint64
}

// AuxtraceInfo is PERF_RECORD_AUXTRACE_INFO: the parameters for decoding the AUX areas.
type AuxtraceInfo struct {
	Type uint32
	Priv []uint64 // depends on Type
}

// Auxtrace is PERF_RECORD_AUXTRACE: it describes a piece of an AUX area. The piece itself follows the record in the file, at DataOffset; the
// Reader skips it.
type Auxtrace struct {
	Size       uint64 // bytes of the piece
	Offset     uint64 // in the AUX area
	Reference  uint64
	Index      uint32 // of the ring
	TID        int32
	CPU        int32
	DataOffset int64 // offset of the piece in the file
}

// AuxtraceError is PERF_RECORD_AUXTRACE_ERROR: an error in decoding an AUX area.
type AuxtraceError struct {
	Type       uint32
	Code       uint32
	CPU        int32
	PID, TID   int32
	Format     uint32 // from 1 on: Time is present; from 2 on: MachinePID and VCPU are present
	IP         uint64
	Time       uint64 // ns
	Message    string
	MachinePID int32
	VCPU       int32
}

// ThreadMap is PERF_RECORD_THREAD_MAP: the threads that were recorded.
type ThreadMap struct {
	Threads []MappedThread
}

// MappedThread is struct perf_record_thread_map_entry.
type MappedThread struct {
	TID  int64 // -1: all threads
	Comm string
}

// CPUMap is PERF_RECORD_CPU_MAP: the CPUs that were recorded.
type CPUMap struct {
	Any  bool // the list includes -1, "any CPU"
	CPUs []int
}

// StatConfig is PERF_RECORD_STAT_CONFIG: the configuration of perf stat.
type StatConfig struct {
	Terms []StatConfigTerm
}

// StatConfigTerm is struct perf_record_stat_config_entry.
type StatConfigTerm struct {
	Tag   uint64 // PERF_STAT_CONFIG_TERM__…: 0 aggregation mode, 1 interval, 2 scale, 3 aggregation level
	Value uint64
}

// Stat is PERF_RECORD_STAT: a counter reading of perf stat.
type Stat struct {
	ID      uint64
	CPU     int32
	Thread  int32
	Value   uint64
	Enabled uint64 // ns
	Running uint64 // ns
}

// StatRound is PERF_RECORD_STAT_ROUND: the end of an interval of perf stat, or of the whole run.
type StatRound struct {
	Type uint64 // 0 interval, 1 final
	Time uint64 // ns
}

// TimeConv is PERF_RECORD_TIME_CONV: the parameters for converting the CPU's cycles to time, as in struct perf_event_mmap_page.
type TimeConv struct {
	Shift     uint64
	Mult      uint64
	Zero      uint64
	Cycles    uint64 // this and the following fields: perf 5.11
	Mask      uint64
	CapZero   bool
	CapShort  bool
	HasCycles bool // Cycles and the following fields are present
}

// HeaderFeature is PERF_RECORD_HEADER_FEATURE: a feature of the recording. Only pipes, and the front of a Writer's files, have it.
type HeaderFeature struct {
	ID   FeatureID
	Data []byte
}

// BPFMetadata is PERF_RECORD_BPF_METADATA: the values of a BPF program's variables bpf_metadata_…. perf 6.17.
type BPFMetadata struct {
	Program string
	Entries []BPFMetadataEntry
}

// BPFMetadataEntry is struct perf_record_bpf_metadata_entry.
type BPFMetadataEntry struct {
	Key   string // without "bpf_metadata_"
	Value string
}

// Unknown is a record that the package does not decode: its type is unknown or without a Value type (SCHEDSTAT_…), or its event is unknown.
type Unknown struct {
	Type RecordType
	Data []byte // the bytes after the header; valid as long as the Record
}
