package perfdata

const (
	recordHeaderSize = 8  // struct perf_event_header
	buildIDSize      = 28 // struct perf_record_header_build_id without its header and name
)

// appendRecordHeader begins a record, of which endRecord must be told where it began.
func appendRecordHeader(b []byte, t RecordType, m Misc) []byte {
	return appendU16(appendU16(appendU32(b, uint32(t)), uint16(m)), 0)
}

// endRecord writes the size of the record that began there, which must be below 64 KiB.
func endRecord(b []byte, start int) { le.PutUint16(b[start+6:], uint16(len(b)-start)) }

func (c *cursor) headerBuildID(misc Misc) *HeaderBuildID {
	r := &HeaderBuildID{Misc: misc &^ MiscBuildIDSize, PID: c.i32()}
	id := c.bytes(24)
	r.Filename = cString(c.b)
	if c.short {
		return r
	}
	size := 20
	if misc&MiscBuildIDSize != 0 {
		size = min(int(id[20]), 20)
	}
	r.BuildID = append([]byte(nil), id[:size]...)
	return r
}

func (r *HeaderBuildID) append(b []byte) []byte {
	b = appendU32(b, uint32(r.PID))
	id := [24]byte{}
	id[20] = uint8(copy(id[:20], r.BuildID))
	return appendPadded(append(b, id[:]...), r.Filename, nameAlign)
}

// appendRecord writes a record. Those of the kernel get the trailer that the attributes of their event say.
func appendRecord(b []byte, misc Misc, v Value, attr *Attr) []byte {
	start := len(b)
	b = appendRecordHeader(b, v.RecordType(), misc|v.misc())
	b = v.appendBody(b, attr)
	if v, is := v.(interface{ sampleID() *SampleID }); is && attr.Has(AttrSampleIDAll) {
		if _, is := v.(*Sample); !is {
			b = v.sampleID().appendTrailer(b, attr.SampleType)
		}
	}
	endRecord(b, start)
	return b
}
