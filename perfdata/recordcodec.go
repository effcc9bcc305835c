package perfdata

const (
	recordHeaderSize = 8  // struct perf_event_header
	buildIDSize      = 28 // struct perf_record_header_build_id without its header and name
)

// appendRecordHeader begins a record, of which endRecord must be told where it began.
func appendRecordHeader(b []byte, t RecordType) []byte {
	return appendZeros(appendU32(b, uint32(t)), 4)
}

// endRecord writes the rest of the header of the record that began there, which must be below 64 KiB.
func endRecord(b []byte, start int, m Misc) {
	le.PutUint16(b[start+4:], uint16(m))
	le.PutUint16(b[start+6:], uint16(len(b)-start))
}

// appendRecord appends a record. With AttrSampleIDAll, kernel records other than samples get a trailer with the fields of attr.SampleType.
func appendRecord(b []byte, misc Misc, v Value, attr *Attr) []byte {
	start := len(b)
	k := coder{writing: true, out: appendRecordHeader(b, v.RecordType()), attr: attr}
	v.code(&k)
	b = k.out
	if v, is := v.(interface{ sampleID() *SampleID }); is && attr.Has(AttrSampleIDAll) {
		if _, is := v.(*Sample); !is {
			b = v.sampleID().appendTrailer(b, attr.SampleType)
		}
	}
	endRecord(b, start, misc|k.misc)
	return b
}

// newRecord makes an empty record of each type other than samples that this package knows.
var newRecord = map[RecordType]func() Value{
	RecordMmap: empty[Mmap], RecordMmap2: empty[Mmap2], RecordComm: empty[Comm], RecordFork: empty[Fork], RecordExit: empty[Exit],
	RecordLost: empty[Lost], RecordLostSamples: empty[LostSamples], RecordThrottle: empty[Throttle], RecordUnthrottle: empty[Unthrottle],
	RecordRead: empty[Read], RecordSwitch: empty[Switch], RecordSwitchCPUWide: empty[SwitchCPUWide], RecordNamespaces: empty[Namespaces],
	RecordKSymbol: empty[KSymbol], RecordBPFEvent: empty[BPFEvent], RecordCgroup: empty[Cgroup], RecordTextPoke: empty[TextPoke],
	RecordAux: empty[Aux], RecordITraceStart: empty[ITraceStart], RecordAuxOutputHWID: empty[AuxOutputHWID],
	RecordCallchainDeferred: empty[CallchainDeferred], RecordHeaderAttr: empty[HeaderAttr], RecordHeaderEventType: empty[HeaderEventType],
	RecordHeaderTracingData: empty[HeaderTracingData], RecordHeaderBuildID: empty[HeaderBuildID],
	RecordFinishedRound: empty[FinishedRound], RecordFinishedInit: empty[FinishedInit], RecordIDIndex: empty[IDIndex],
	RecordAuxtraceInfo: empty[AuxtraceInfo], RecordAuxtrace: empty[Auxtrace], RecordAuxtraceError: empty[AuxtraceError],
	RecordThreadMap: empty[ThreadMap], RecordCPUMap: empty[CPUMap], RecordStatConfig: empty[StatConfig], RecordStat: empty[Stat],
	RecordStatRound: empty[StatRound], RecordEventUpdate: empty[EventUpdate], RecordTimeConv: empty[TimeConv],
	RecordHeaderFeature: empty[HeaderFeature], RecordBPFMetadata: empty[BPFMetadata],
}

func empty[T any, P interface {
	*T
	Value
}]() Value {
	return P(new(T))
}
