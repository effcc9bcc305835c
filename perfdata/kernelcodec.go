package perfdata

import "bytes"

// kernelRecord decodes a record of the kernel that is no sample, without its header and its trailer. It is nil if the type is not known.
func (c *cursor) kernelRecord(t RecordType, m Misc, id SampleID, attr *Attr) Value {
	switch t {
	case RecordMmap:
		return &Mmap{SampleID: id, PID: c.i32(), TID: c.i32(), Start: c.u64(), Length: c.u64(), Offset: c.u64(),
			Data: m&MiscMmapData != 0, Filename: cString(c.b)}
	case RecordMmap2:
		return c.mmap2(m, id, attr)
	case RecordComm:
		return &Comm{SampleID: id, PID: c.i32(), TID: c.i32(), Exec: m&MiscCommExec != 0, Comm: cString(c.b)}
	case RecordFork:
		return &Fork{SampleID: id, PID: c.i32(), ParentPID: c.i32(), TID: c.i32(), ParentTID: c.i32(), TaskTime: c.u64(),
			Exec: m&MiscForkExec != 0}
	case RecordExit:
		return &Exit{SampleID: id, PID: c.i32(), ParentPID: c.i32(), TID: c.i32(), ParentTID: c.i32(), TaskTime: c.u64()}
	case RecordLost:
		return &Lost{SampleID: id, EventID: c.u64(), Records: c.u64()}
	case RecordLostSamples:
		return &LostSamples{SampleID: id, Samples: c.u64(), BPF: m&MiscLostSamplesBPF != 0}
	case RecordThrottle:
		return &Throttle{SampleID: id, EventTime: c.u64(), EventID: c.u64(), EventStreamID: c.u64()}
	case RecordUnthrottle:
		return &Unthrottle{SampleID: id, EventTime: c.u64(), EventID: c.u64(), EventStreamID: c.u64()}
	case RecordRead:
		r := &Read{SampleID: id, PID: c.i32(), TID: c.i32()}
		c.readings(&r.Readings, attr.ReadFormat, &arena{})
		return r
	case RecordSwitch:
		return &Switch{SampleID: id, Out: m&MiscSwitchOut != 0, Preempt: m&MiscSwitchOutPreempt != 0}
	case RecordSwitchCPUWide:
		return &SwitchCPUWide{SampleID: id, Out: m&MiscSwitchOut != 0, Preempt: m&MiscSwitchOutPreempt != 0,
			PID: c.i32(), TID: c.i32()}
	case RecordNamespaces:
		return c.namespaces(id)
	case RecordKSymbol:
		return &KSymbol{SampleID: id, Addr: c.u64(), Size: c.u32(), Type: c.u16(), Flags: c.u16(), Name: cString(c.b)}
	case RecordBPFEvent:
		e := &BPFEvent{SampleID: id, Type: c.u16(), Flags: c.u16(), ID: c.u32()}
		copy(e.Tag[:], c.bytes(8))
		return e
	case RecordCgroup:
		return &Cgroup{SampleID: id, ID: c.u64(), Path: cString(c.b)}
	case RecordTextPoke:
		p := &TextPoke{SampleID: id, Addr: c.u64()}
		before, after := int(c.u16()), int(c.u16())
		p.Old = append([]byte(nil), c.bytes(before)...)
		p.New = append([]byte(nil), c.bytes(after)...)
		return p
	case RecordAux:
		return &Aux{SampleID: id, Offset: c.u64(), Size: c.u64(), Flags: c.u64()}
	case RecordITraceStart:
		return &ITraceStart{SampleID: id, PID: c.i32(), TID: c.i32()}
	case RecordAuxOutputHWID:
		return &AuxOutputHWID{SampleID: id, HWID: c.u64()}
	case RecordCallchainDeferred:
		d := &CallchainDeferred{SampleID: id, Cookie: c.u64()}
		d.Callchain = c.u64s(c.u64())
		return d
	}
	return nil
}

func (c *cursor) mmap2(m Misc, id SampleID, attr *Attr) *Mmap2 {
	r := &Mmap2{SampleID: id, PID: c.i32(), TID: c.i32(), Start: c.u64(), Length: c.u64(), Offset: c.u64(), Data: m&MiscMmapData != 0}
	if m&MiscMmapBuildID != 0 && (attr.Has(AttrBuildID) || likelyBuildID(c.b)) {
		size := c.bytes(4) // and three bytes of nothing
		id := c.bytes(20)
		if !c.short {
			r.BuildID = append([]byte{}, id[:min(int(size[0]), len(id))]...)
		}
	} else {
		r.Major, r.Minor, r.Inode, r.InodeGeneration = c.u32(), c.u32(), c.u64(), c.u64()
	}
	r.Protection, r.Flags = c.u32(), c.u32()
	r.Filename = cString(c.b)
	return r
}

// likelyBuildID reports whether the fields of a build ID hold one: a size, three bytes of 0, and an ID with zeros behind it. The kernel (6.18)
// sets the bit in records of events that did not ask for build IDs, too, if another session's did; these have a device and an inode. An event that
// did not ask may have build IDs all the same, as other tools add them to files.
func likelyBuildID(b []byte) bool {
	if len(b) < 24 {
		return false
	}
	size, id := b[0], b[4:24]
	return (size == 16 || size == 20) && b[1]|b[2]|b[3] == 0 && len(bytes.Trim(id[size:], "\x00")) == 0
}

func (c *cursor) namespaces(id SampleID) *Namespaces {
	r := &Namespaces{SampleID: id, PID: c.i32(), TID: c.i32()}
	r.Links = make([]NamespaceLink, c.count(c.u64(), 16))
	for i := range r.Links {
		r.Links[i] = NamespaceLink{Device: c.u64(), Inode: c.u64()}
	}
	return r
}

func (id *SampleID) sampleID() *SampleID { return id }

// miscIf is m if it is set.
func miscIf(set bool, m Misc) Misc {
	if set {
		return m
	}
	return 0
}

func (r *Sample) misc() Misc { return 0 }
func (r *Mmap) misc() Misc   { return miscIf(r.Data, MiscMmapData) }
func (r *Mmap2) misc() Misc {
	return miscIf(r.Data, MiscMmapData) | miscIf(r.BuildID != nil, MiscMmapBuildID)
}
func (r *Comm) misc() Misc              { return miscIf(r.Exec, MiscCommExec) }
func (r *Fork) misc() Misc              { return miscIf(r.Exec, MiscForkExec) }
func (r *Exit) misc() Misc              { return 0 }
func (r *Lost) misc() Misc              { return 0 }
func (r *LostSamples) misc() Misc       { return miscIf(r.BPF, MiscLostSamplesBPF) }
func (r *Throttle) misc() Misc          { return 0 }
func (r *Unthrottle) misc() Misc        { return 0 }
func (r *Read) misc() Misc              { return 0 }
func (r *Namespaces) misc() Misc        { return 0 }
func (r *KSymbol) misc() Misc           { return 0 }
func (r *BPFEvent) misc() Misc          { return 0 }
func (r *Cgroup) misc() Misc            { return 0 }
func (r *TextPoke) misc() Misc          { return 0 }
func (r *Aux) misc() Misc               { return 0 }
func (r *ITraceStart) misc() Misc       { return 0 }
func (r *AuxOutputHWID) misc() Misc     { return 0 }
func (r *CallchainDeferred) misc() Misc { return 0 }

func (r *Switch) misc() Misc {
	return miscIf(r.Out, MiscSwitchOut) | miscIf(r.Preempt, MiscSwitchOutPreempt)
}

func (r *SwitchCPUWide) misc() Misc {
	return miscIf(r.Out, MiscSwitchOut) | miscIf(r.Preempt, MiscSwitchOutPreempt)
}

func appendTask(b []byte, pid, tid int32) []byte {
	return appendU32(appendU32(b, uint32(pid)), uint32(tid))
}

func (r *Sample) appendBody(b []byte, attr *Attr) []byte { return r.append(b, attr) }

func (r *Mmap) appendBody(b []byte, _ *Attr) []byte {
	b = appendU64(appendU64(appendU64(appendTask(b, r.PID, r.TID), r.Start), r.Length), r.Offset)
	return appendPadded(b, r.Filename, 8)
}

func (r *Mmap2) appendBody(b []byte, _ *Attr) []byte {
	b = appendU64(appendU64(appendU64(appendTask(b, r.PID, r.TID), r.Start), r.Length), r.Offset)
	if r.BuildID != nil {
		id := [24]byte{}
		id[0] = uint8(copy(id[4:], r.BuildID))
		b = append(b, id[:]...)
	} else {
		b = appendU64(appendU64(appendU32(appendU32(b, r.Major), r.Minor), r.Inode), r.InodeGeneration)
	}
	return appendPadded(appendU32(appendU32(b, r.Protection), r.Flags), r.Filename, 8)
}

func (r *Comm) appendBody(b []byte, _ *Attr) []byte {
	return appendPadded(appendTask(b, r.PID, r.TID), r.Comm, 8)
}

func (r *Fork) appendBody(b []byte, _ *Attr) []byte {
	return appendU64(appendTask(appendTask(b, r.PID, r.ParentPID), r.TID, r.ParentTID), r.TaskTime)
}

func (r *Exit) appendBody(b []byte, _ *Attr) []byte {
	return appendU64(appendTask(appendTask(b, r.PID, r.ParentPID), r.TID, r.ParentTID), r.TaskTime)
}

func (r *Lost) appendBody(b []byte, _ *Attr) []byte {
	return appendU64(appendU64(b, r.EventID), r.Records)
}

func (r *LostSamples) appendBody(b []byte, _ *Attr) []byte { return appendU64(b, r.Samples) }

func (r *Throttle) appendBody(b []byte, _ *Attr) []byte {
	return appendU64(appendU64(appendU64(b, r.EventTime), r.EventID), r.EventStreamID)
}

func (r *Unthrottle) appendBody(b []byte, _ *Attr) []byte {
	return appendU64(appendU64(appendU64(b, r.EventTime), r.EventID), r.EventStreamID)
}

func (r *Read) appendBody(b []byte, attr *Attr) []byte {
	return r.Readings.append(appendTask(b, r.PID, r.TID), attr.ReadFormat)
}

func (r *Switch) appendBody(b []byte, _ *Attr) []byte { return b }

func (r *SwitchCPUWide) appendBody(b []byte, _ *Attr) []byte { return appendTask(b, r.PID, r.TID) }

func (r *Namespaces) appendBody(b []byte, _ *Attr) []byte {
	b = appendU64(appendTask(b, r.PID, r.TID), uint64(len(r.Links)))
	for _, l := range r.Links {
		b = appendU64(appendU64(b, l.Device), l.Inode)
	}
	return b
}

func (r *KSymbol) appendBody(b []byte, _ *Attr) []byte {
	return appendPadded(appendU16(appendU16(appendU32(appendU64(b, r.Addr), r.Size), r.Type), r.Flags), r.Name, 8)
}

func (r *BPFEvent) appendBody(b []byte, _ *Attr) []byte {
	return append(appendU32(appendU16(appendU16(b, r.Type), r.Flags), r.ID), r.Tag[:]...)
}

func (r *Cgroup) appendBody(b []byte, _ *Attr) []byte {
	return appendPadded(appendU64(b, r.ID), r.Path, 8)
}

func (r *TextPoke) appendBody(b []byte, _ *Attr) []byte {
	b = appendU16(appendU16(appendU64(b, r.Addr), uint16(len(r.Old))), uint16(len(r.New)))
	b = append(append(b, r.Old...), r.New...)
	n := 12 + len(r.Old) + len(r.New)
	return appendZeros(b, roundUp(n, 8)-n)
}

func (r *Aux) appendBody(b []byte, _ *Attr) []byte {
	return appendU64(appendU64(appendU64(b, r.Offset), r.Size), r.Flags)
}

func (r *ITraceStart) appendBody(b []byte, _ *Attr) []byte { return appendTask(b, r.PID, r.TID) }

func (r *AuxOutputHWID) appendBody(b []byte, _ *Attr) []byte { return appendU64(b, r.HWID) }

func (r *CallchainDeferred) appendBody(b []byte, _ *Attr) []byte {
	return appendU64s(appendU64(appendU64(b, r.Cookie), uint64(len(r.Callchain))), r.Callchain)
}
