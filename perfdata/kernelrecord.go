package perfdata

// Mmap is PERF_RECORD_MMAP: the memory of a process or, with PID -1, a module of the kernel was mapped.
type Mmap struct {
	SampleID
	PID, TID int32
	Start    uint64
	Length   uint64 // bytes
	Offset   uint64 // bytes from the start of the file
	Data     bool   // not executable
	Filename string
}

// Mmap2 is PERF_RECORD_MMAP2: a process mapped memory. Unlike Mmap, it identifies the file. Linux 3.12; with a build ID Linux 5.12.
type Mmap2 struct {
	SampleID
	PID, TID        int32
	Start           uint64
	Length          uint64 // bytes
	Offset          uint64 // bytes from the start of the file
	Major, Minor    uint32 // the file's device; 0 with a build ID
	Inode           uint64 // 0 with a build ID
	InodeGeneration uint64 // 0 with a build ID
	BuildID         []byte // at most 20 bytes; nil if the record has device and inode instead
	Protection      uint32 // PROT_…
	Flags           uint32 // MAP_…
	Data            bool   // not executable
	Filename        string
}

// Comm is PERF_RECORD_COMM: a thread got a new name.
type Comm struct {
	SampleID
	PID, TID int32
	Exec     bool // execve(2) changed the name. Linux 3.16
	Comm     string
}

// Fork is PERF_RECORD_FORK: a thread or process started.
type Fork struct {
	SampleID
	PID, ParentPID int32
	TID, ParentTID int32
	TaskTime       uint64 // ns
	Exec           bool   // MiscForkExec, which perf sets, not the kernel
}

// Exit is PERF_RECORD_EXIT: a thread ended.
type Exit struct {
	SampleID
	PID, ParentPID int32
	TID, ParentTID int32
	TaskTime       uint64 // ns
}

// Lost is PERF_RECORD_LOST: the kernel dropped records because the ring was full.
type Lost struct {
	SampleID
	EventID uint64
	Records uint64
}

// LostSamples is PERF_RECORD_LOST_SAMPLES: samples were lost. Linux 4.2.
type LostSamples struct {
	SampleID
	Samples uint64
	BPF     bool // a BPF filter dropped them. perf 6.2; set by perf, not by the kernel
}

// Throttle is PERF_RECORD_THROTTLE: an event overflowed too often, so the kernel stopped it until the next tick.
type Throttle struct {
	SampleID
	EventTime     uint64 // ns
	EventID       uint64
	EventStreamID uint64
}

// Unthrottle is PERF_RECORD_UNTHROTTLE: a throttled event resumes.
type Unthrottle struct {
	SampleID
	EventTime     uint64 // ns
	EventID       uint64
	EventStreamID uint64
}

// Read is PERF_RECORD_READ: the counter readings of a thread when it ended (AttrInheritStat).
type Read struct {
	SampleID
	PID, TID int32
	Readings Readings
}

// Switch is PERF_RECORD_SWITCH: the task was switched in or out. Linux 4.3.
type Switch struct {
	SampleID
	Out     bool
	Preempt bool // out, and still runnable. Linux 4.17
}

// SwitchCPUWide is PERF_RECORD_SWITCH_CPU_WIDE: a CPU switched from one task to another. Linux 4.3.
type SwitchCPUWide struct {
	SampleID
	Out     bool
	Preempt bool  // out, and still runnable. Linux 4.17
	PID     int32 // if Out, the next task, else the previous one
	TID     int32
}

// Namespaces is PERF_RECORD_NAMESPACES: the namespaces of a thread. Linux 4.12.
type Namespaces struct {
	SampleID
	PID, TID int32
	Links    []NamespaceLink // in the order net, uts, ipc, pid, user, mnt, cgroup
}

// NamespaceLink is struct perf_ns_link_info: the device and inode of a namespace's file in nsfs.
type NamespaceLink struct {
	Device uint64
	Inode  uint64
}

// KSymbol is PERF_RECORD_KSYMBOL: a kernel symbol was registered or unregistered. Linux 5.1.
type KSymbol struct {
	SampleID
	Addr  uint64
	Size  uint32 // bytes
	Type  uint16 // KSymbol…
	Flags uint16 // KSymbolUnregister
	Name  string
}

// The values of KSymbol.Type, enum perf_record_ksymbol_type, and the flag of KSymbol.Flags.
const (
	KSymbolUnknown    = 0
	KSymbolBPF        = 1
	KSymbolOutOfLine  = 2 // of kprobes and ftrace. Linux 5.9
	KSymbolUnregister = 1 // Flags: the symbol was unregistered
)

// BPFEvent is PERF_RECORD_BPF_EVENT: a BPF program was loaded or unloaded. Linux 5.1.
type BPFEvent struct {
	SampleID
	Type  uint16 // BPFEvent…
	Flags uint16
	ID    uint32
	Tag   [8]byte
}

// The values of BPFEvent.Type: enum perf_bpf_event_type.
const (
	BPFEventLoad   = 1
	BPFEventUnload = 2
)

// Cgroup is PERF_RECORD_CGROUP: a cgroup was created. Linux 5.7.
type Cgroup struct {
	SampleID
	ID   uint64 // as in Sample.Cgroup
	Path string // relative to the root of the hierarchy
}

// TextPoke is PERF_RECORD_TEXT_POKE: the kernel modified its code. Linux 5.9.
type TextPoke struct {
	SampleID
	Addr uint64
	Old  []byte
	New  []byte
}

// Aux is PERF_RECORD_AUX: new data arrived in the AUX area. Linux 4.1.
type Aux struct {
	SampleID
	Offset uint64 // bytes
	Size   uint64 // bytes
	Flags  uint64 // PERF_AUX_FLAG_…
}

// ITraceStart is PERF_RECORD_ITRACE_START: the hardware trace of a thread started. Linux 4.1.
type ITraceStart struct {
	SampleID
	PID, TID int32
}

// AuxOutputHWID is PERF_RECORD_AUX_OUTPUT_HW_ID: the hardware's own ID of an event in the AUX area. Linux 5.16.
type AuxOutputHWID struct {
	SampleID
	HWID uint64
}

// CallchainDeferred is PERF_RECORD_CALLCHAIN_DEFERRED: the user part of callchains. It completes the samples of the same thread that have
// Cookie after ContextUserDeferred. Linux 6.19.
type CallchainDeferred struct {
	SampleID
	Cookie    uint64
	Callchain []uint64
}
