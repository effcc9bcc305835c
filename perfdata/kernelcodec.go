package perfdata

import "bytes"

func (id *SampleID) sampleID() *SampleID { return id }

// code writes a sample. Batches read them.
func (s *Sample) code(k *coder) { k.out = s.append(k.out, k.attr) }

func (r *Mmap) code(k *coder) {
	u32(k, &r.PID, &r.TID)
	u64(k, &r.Start, &r.Length, &r.Offset)
	k.flag(&r.Data, MiscMmapData)
	k.rest(&r.Filename, 8)
}

func (r *Mmap2) code(k *coder) {
	u32(k, &r.PID, &r.TID)
	u64(k, &r.Start, &r.Length, &r.Offset)
	k.flag(&r.Data, MiscMmapData)
	hasBuildID := r.BuildID != nil
	k.flag(&hasBuildID, MiscMmapBuildID)
	if hasBuildID && (k.writing || k.attr.Has(AttrBuildID) || likelyBuildID(k.in.b)) {
		var id [24]byte // a size, three bytes of 0, and the ID
		id[0] = uint8(copy(id[4:], r.BuildID))
		k.array(id[:])
		if !k.writing {
			r.BuildID = append([]byte{}, id[4:][:min(int(id[0]), 20)]...)
		}
	} else {
		u32(k, &r.Major, &r.Minor)
		u64(k, &r.Inode, &r.InodeGeneration)
	}
	u32(k, &r.Protection, &r.Flags)
	k.rest(&r.Filename, 8)
}

// likelyBuildID reports whether b begins with a build ID: a size, three zero bytes, and the ID padded with zeros. It is needed for events
// without AttrBuildID. If another session's event has AttrBuildID, the kernel (6.18) sets MiscMmapBuildID in their records, too, although
// these have a device and an inode. Their records can still have build IDs, because other tools add build IDs to files.
func likelyBuildID(b []byte) bool {
	if len(b) < 24 {
		return false
	}
	size, id := b[0], b[4:24]
	return (size == 16 || size == 20) && b[1]|b[2]|b[3] == 0 && len(bytes.Trim(id[size:], "\x00")) == 0
}

func (r *Comm) code(k *coder) {
	u32(k, &r.PID, &r.TID)
	k.flag(&r.Exec, MiscCommExec)
	k.rest(&r.Comm, 8)
}

func (r *Fork) code(k *coder) {
	u32(k, &r.PID, &r.ParentPID, &r.TID, &r.ParentTID)
	u64(k, &r.TaskTime)
	k.flag(&r.Exec, MiscForkExec)
}

func (r *Exit) code(k *coder) {
	u32(k, &r.PID, &r.ParentPID, &r.TID, &r.ParentTID)
	u64(k, &r.TaskTime)
}

func (r *Lost) code(k *coder) { u64(k, &r.EventID, &r.Records) }

func (r *LostSamples) code(k *coder) {
	u64(k, &r.Samples)
	k.flag(&r.BPF, MiscLostSamplesBPF)
}

func (r *Throttle) code(k *coder) { u64(k, &r.EventTime, &r.EventID, &r.EventStreamID) }

func (r *Unthrottle) code(k *coder) { u64(k, &r.EventTime, &r.EventID, &r.EventStreamID) }

func (r *Read) code(k *coder) {
	u32(k, &r.PID, &r.TID)
	if k.writing {
		k.out = r.Readings.append(k.out, k.attr.ReadFormat)
	} else {
		k.in.readings(&r.Readings, k.attr.ReadFormat, &arena{})
	}
}

func (r *Switch) code(k *coder) {
	k.flag(&r.Out, MiscSwitchOut)
	k.flag(&r.Preempt, MiscSwitchOutPreempt)
}

func (r *SwitchCPUWide) code(k *coder) {
	k.flag(&r.Out, MiscSwitchOut)
	k.flag(&r.Preempt, MiscSwitchOutPreempt)
	u32(k, &r.PID, &r.TID)
}

func (r *Namespaces) code(k *coder) {
	u32(k, &r.PID, &r.TID)
	for i := range elements64(k, &r.Links, 16) {
		u64(k, &r.Links[i].Device, &r.Links[i].Inode)
	}
}

func (r *KSymbol) code(k *coder) {
	u64(k, &r.Addr)
	u32(k, &r.Size)
	u16(k, &r.Type, &r.Flags)
	k.rest(&r.Name, 8)
}

func (r *BPFEvent) code(k *coder) {
	u16(k, &r.Type, &r.Flags)
	u32(k, &r.ID)
	k.array(r.Tag[:])
}

func (r *Cgroup) code(k *coder) {
	u64(k, &r.ID)
	k.rest(&r.Path, 8)
}

func (r *TextPoke) code(k *coder) {
	u64(k, &r.Addr)
	before, after := uint16(len(r.Old)), uint16(len(r.New))
	u16(k, &before, &after)
	k.bytes(&r.Old, int(before))
	k.bytes(&r.New, int(after))
	if k.writing {
		n := 12 + len(r.Old) + len(r.New)
		k.pad(roundUp(n, 8) - n)
	}
}

func (r *Aux) code(k *coder) { u64(k, &r.Offset, &r.Size, &r.Flags) }

func (r *ITraceStart) code(k *coder) { u32(k, &r.PID, &r.TID) }

func (r *AuxOutputHWID) code(k *coder) { u64(k, &r.HWID) }

func (r *CallchainDeferred) code(k *coder) {
	u64(k, &r.Cookie)
	n := uint64(len(r.Callchain))
	u64(k, &n)
	k.u64s(&r.Callchain, n)
}
