package perfdata

// Value is the decoded content of a record. It is a pointer to a type that is named after the record: *Sample, *Mmap2 and so on. Records of
// an unknown type have an *Unknown.
type Value interface {
	// RecordType returns the type of the records that have this value.
	RecordType() RecordType

	code(k *coder) // reads or writes what stands between header and trailer
}

// Record is one record of a recording.
//
// A *Sample, Raw and Unknown.Data are valid until the next iteration of [Reader.Records], or the one after it of [Reader.Batches]. All other
// values can be kept.
type Record struct {
	Type   RecordType
	Misc   Misc
	Time   uint64 // SampleID.Time, in ns; 0 if the record has no time
	Offset int64  // bytes from the start of the file; for a compressed record, the offset of the COMPRESSED record that holds it
	Event  *Event // found by its ID; nil if the ID is unknown, and for records of perf itself
	Value  Value
	Raw    []byte // the whole record as in the file, including its header
}

func (*Sample) RecordType() RecordType            { return RecordSample }
func (*Mmap) RecordType() RecordType              { return RecordMmap }
func (*Mmap2) RecordType() RecordType             { return RecordMmap2 }
func (*Comm) RecordType() RecordType              { return RecordComm }
func (*Fork) RecordType() RecordType              { return RecordFork }
func (*Exit) RecordType() RecordType              { return RecordExit }
func (*Lost) RecordType() RecordType              { return RecordLost }
func (*LostSamples) RecordType() RecordType       { return RecordLostSamples }
func (*Throttle) RecordType() RecordType          { return RecordThrottle }
func (*Unthrottle) RecordType() RecordType        { return RecordUnthrottle }
func (*Read) RecordType() RecordType              { return RecordRead }
func (*Switch) RecordType() RecordType            { return RecordSwitch }
func (*SwitchCPUWide) RecordType() RecordType     { return RecordSwitchCPUWide }
func (*Namespaces) RecordType() RecordType        { return RecordNamespaces }
func (*KSymbol) RecordType() RecordType           { return RecordKSymbol }
func (*BPFEvent) RecordType() RecordType          { return RecordBPFEvent }
func (*Cgroup) RecordType() RecordType            { return RecordCgroup }
func (*TextPoke) RecordType() RecordType          { return RecordTextPoke }
func (*Aux) RecordType() RecordType               { return RecordAux }
func (*ITraceStart) RecordType() RecordType       { return RecordITraceStart }
func (*AuxOutputHWID) RecordType() RecordType     { return RecordAuxOutputHWID }
func (*CallchainDeferred) RecordType() RecordType { return RecordCallchainDeferred }
func (*HeaderAttr) RecordType() RecordType        { return RecordHeaderAttr }
func (*HeaderEventType) RecordType() RecordType   { return RecordHeaderEventType }
func (*HeaderTracingData) RecordType() RecordType { return RecordHeaderTracingData }
func (*HeaderBuildID) RecordType() RecordType     { return RecordHeaderBuildID }
func (*FinishedRound) RecordType() RecordType     { return RecordFinishedRound }
func (*FinishedInit) RecordType() RecordType      { return RecordFinishedInit }
func (*IDIndex) RecordType() RecordType           { return RecordIDIndex }
func (*AuxtraceInfo) RecordType() RecordType      { return RecordAuxtraceInfo }
func (*Auxtrace) RecordType() RecordType          { return RecordAuxtrace }
func (*AuxtraceError) RecordType() RecordType     { return RecordAuxtraceError }
func (*ThreadMap) RecordType() RecordType         { return RecordThreadMap }
func (*CPUMap) RecordType() RecordType            { return RecordCPUMap }
func (*StatConfig) RecordType() RecordType        { return RecordStatConfig }
func (*Stat) RecordType() RecordType              { return RecordStat }
func (*StatRound) RecordType() RecordType         { return RecordStatRound }
func (*EventUpdate) RecordType() RecordType       { return RecordEventUpdate }
func (*TimeConv) RecordType() RecordType          { return RecordTimeConv }
func (*HeaderFeature) RecordType() RecordType     { return RecordHeaderFeature }
func (*BPFMetadata) RecordType() RecordType       { return RecordBPFMetadata }
func (u *Unknown) RecordType() RecordType         { return u.Type }
