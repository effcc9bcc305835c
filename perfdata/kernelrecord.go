package perfdata

// Mmap is PERF_RECORD_MMAP: memory of a process, or a module of the kernel (PID -1), was mapped.
type Mmap struct {
	SampleID
	PID, TID int32
	Start    uint64
	Length   uint64 // bytes
	Offset   uint64 // bytes, in the file
	Data     bool   // not executable
	Filename string
}

// Mmap2 is PERF_RECORD_MMAP2: memory was mapped, and from which file. Linux 3.12; with a build ID 5.12.
type Mmap2 struct {
	SampleID
	PID, TID        int32
	Start           uint64
	Length          uint64 // bytes
	Offset          uint64 // bytes, in the file
	Major, Minor    uint32 // of the file's device; 0 with a build ID
	Inode           uint64 // 0 with a build ID
	InodeGeneration uint64 // 0 with a build ID
	BuildID         []byte // at most 20 bytes; nil where there is device and inode instead
	Protection      uint32 // PROT_…
	Flags           uint32 // MAP_…
	Data            bool   // not executable
	Filename        string
}

// Comm is PERF_RECORD_COMM: the name of a thread changed.
type Comm struct {
	SampleID
	PID, TID int32
	Exec     bool // by execve(2). Linux 3.16
	Comm     string
}

// Fork is PERF_RECORD_FORK: a thread was made.
type Fork struct {
	SampleID
	PID, ParentPID int32
	TID, ParentTID int32
	TaskTime       uint64 // ns
	Exec           bool   // perf's own
}

// Exit is PERF_RECORD_EXIT: a thread ended.
type Exit struct {
	SampleID
	PID, ParentPID int32
	TID, ParentTID int32
	TaskTime       uint64 // ns
}

// Lost is PERF_RECORD_LOST: so many records found no room.
type Lost struct {
	SampleID
	EventID uint64
	Records uint64
}

// LostSamples is PERF_RECORD_LOST_SAMPLES: so many samples were not taken. Linux 4.2.
type LostSamples struct {
	SampleID
	Samples uint64
	BPF     bool // a filter dropped them; perf's own, 6.2
}

// Throttle is PERF_RECORD_THROTTLE: an event overflows too often and is stopped until the next tick.
type Throttle struct {
	SampleID
	EventTime     uint64 // ns
	EventID       uint64
	EventStreamID uint64
}

// Unthrottle is PERF_RECORD_UNTHROTTLE: the event goes on.
type Unthrottle struct {
	SampleID
	EventTime     uint64 // ns
	EventID       uint64
	EventStreamID uint64
}

// Read is PERF_RECORD_READ: what a counter of a task was when the task ended (inherit_stat).
type Read struct {
	SampleID
	PID, TID int32
	Readings Readings
}

// Switch is PERF_RECORD_SWITCH: the task came onto a CPU, or left it. Linux 4.3.
type Switch struct {
	SampleID
	Out     bool
	Preempt bool // out, and still runnable. Linux 4.17
}

// SwitchCPUWide is PERF_RECORD_SWITCH_CPU_WIDE: a CPU went on with another task. Linux 4.3.
type SwitchCPUWide struct {
	SampleID
	Out     bool
	Preempt bool  // out, and still runnable. Linux 4.17
	PID     int32 // out: of the next task; in: of the one before
	TID     int32
}

// Namespaces is PERF_RECORD_NAMESPACES: a thread's are these. Linux 4.12.
type Namespaces struct {
	SampleID
	PID, TID int32
	Links    []NamespaceLink // in the order net, uts, ipc, pid, user, mnt, cgroup
}

// NamespaceLink is struct perf_ns_link_info: the namespace file in nsfs.
type NamespaceLink struct {
	Device uint64
	Inode  uint64
}

// KSymbol is PERF_RECORD_KSYMBOL: code came into the kernel, or went. Linux 5.1.
type KSymbol struct {
	SampleID
	Addr  uint64
	Size  uint32 // bytes
	Type  uint16 // KSymbol…
	Flags uint16 // KSymbolUnregister
	Name  string
}

// What kind of code it is: enum perf_record_ksymbol_type; and what is in Flags.
const (
	KSymbolUnknown    = 0
	KSymbolBPF        = 1
	KSymbolOutOfLine  = 2 // of kprobes and ftrace. Linux 5.9
	KSymbolUnregister = 1 // it went
)

// BPFEvent is PERF_RECORD_BPF_EVENT: a program was loaded or unloaded. Linux 5.1.
type BPFEvent struct {
	SampleID
	Type  uint16 // BPFEvent…
	Flags uint16
	ID    uint32
	Tag   [8]byte
}

// What happened to the program: enum perf_bpf_event_type.
const (
	BPFEventLoad   = 1
	BPFEventUnload = 2
)

// Cgroup is PERF_RECORD_CGROUP: a cgroup was made. Linux 5.7.
type Cgroup struct {
	SampleID
	ID   uint64 // as in Sample.Cgroup
	Path string // below the root of the hierarchy
}

// TextPoke is PERF_RECORD_TEXT_POKE: the kernel changed its code. Linux 5.9.
type TextPoke struct {
	SampleID
	Addr uint64
	Old  []byte
	New  []byte
}

// Aux is PERF_RECORD_AUX: there is more in the AUX area. Linux 4.1.
type Aux struct {
	SampleID
	Offset uint64 // bytes
	Size   uint64 // bytes
	Flags  uint64 // PERF_AUX_FLAG_…
}

// ITraceStart is PERF_RECORD_ITRACE_START: a hardware trace of a thread began. Linux 4.1.
type ITraceStart struct {
	SampleID
	PID, TID int32
}

// AuxOutputHWID is PERF_RECORD_AUX_OUTPUT_HW_ID: the hardware's own ID of an event in the AUX area. Linux 5.16.
type AuxOutputHWID struct {
	SampleID
	HWID uint64
}

// CallchainDeferred is PERF_RECORD_CALLCHAIN_DEFERRED: the user's part of the callchain of the samples of this thread that
// have its cookie behind ContextUserDeferred. Linux 6.19.
type CallchainDeferred struct {
	SampleID
	Cookie    uint64
	Callchain []uint64
}
