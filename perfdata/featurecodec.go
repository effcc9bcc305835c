package perfdata

import "fmt"

// decodeFeature decodes a feature. With an error it returns the build IDs before the error, and nothing of other features. cpus is the
// number of available CPUs, from the feature NRCPUS: CPU_TOPOLOGY does not repeat it.
func decodeFeature(id FeatureID, data []byte, big bool, cpus uint32) (FeatureValue, error) {
	k := &coder{in: cursor{b: data, big: big}, cpus: cpus}
	v, known := newFeature[id]
	if !known {
		v = Opaque(nil)
	}
	v = v.code(k)
	err := k.end()
	if err == nil {
		return v, nil
	}
	if id != FeatureBuildID {
		v = nil
	}
	return v, fmt.Errorf("feature %s: %w", id, err)
}

func appendFeature(v FeatureValue) []byte {
	k := &coder{writing: true}
	v.code(k)
	return k.out
}

// newFeature has an empty feature of each type; of the others, features are Opaque.
var newFeature = map[FeatureID]FeatureValue{
	FeatureTracingData: TracingData(nil), FeatureBuildID: BuildIDs(nil), FeatureHostname: Text(""), FeatureOSRelease: Text(""),
	FeatureVersion: Text(""), FeatureArch: Text(""), FeatureCPUDesc: Text(""), FeatureCPUID: Text(""), FeatureNRCPUs: NRCPUs{},
	FeatureTotalMem: TotalMem(0), FeatureCmdline: CommandLine(nil), FeatureEventDesc: EventDescriptions(nil),
	FeatureCPUTopology: CPUTopology{}, FeatureNUMATopology: NUMATopology(nil), FeatureBranchStack: Flag{}, FeatureStat: Flag{},
	FeaturePMUMappings: PMUMappings(nil), FeatureGroupDesc: GroupDescriptions(nil), FeatureAuxtrace: AuxtraceIndex(nil),
	FeatureCache: Caches(nil), FeatureSampleTime: SampleTimes{}, FeatureMemTopology: MemTopology{}, FeatureClockID: ClockResolution(0),
	FeatureDirFormat: DirFormat(0), FeatureCompressed: Compression{}, FeatureCPUPMUCaps: CPUPMUCaps(nil), FeatureClockData: ClockData{},
	FeatureHybridTopology: HybridTopology(nil), FeaturePMUCaps: PMUCaps(nil), FeatureEMachine: EMachine{},
	FeatureCLNSize: CacheLineSize(0),
}

// all is the whole feature, which is not copied.
func (k *coder) all(b []byte) []byte {
	if k.writing {
		k.out = append(k.out, b...)
		return b
	}
	return k.in.b
}

// version1 fails if a version that was read is not 1.
func (k *coder) version1(version uint64) {
	if version != 1 {
		k.fail("version %d, not 1", version)
	}
}

func (f Opaque) code(k *coder) FeatureValue      { return Opaque(k.all(f)) }
func (f TracingData) code(k *coder) FeatureValue { return TracingData(k.all(f)) }
func (f Flag) code(*coder) FeatureValue          { return f }

func (f Text) code(k *coder) FeatureValue {
	k.headerString((*string)(&f))
	return f
}

func (f TotalMem) code(k *coder) FeatureValue {
	u64(k, &f)
	return f
}

func (f CommandLine) code(k *coder) FeatureValue {
	k.headerStrings((*[]string)(&f))
	return f
}

func (f DirFormat) code(k *coder) FeatureValue {
	u64(k, &f)
	return f
}

func (f ClockResolution) code(k *coder) FeatureValue {
	u64(k, &f)
	return f
}

func (f NRCPUs) code(k *coder) FeatureValue {
	u32(k, &f.Available, &f.Online)
	return f
}

func (f EMachine) code(k *coder) FeatureValue {
	u32(k, &f.Machine, &f.Flags)
	return f
}

func (f CacheLineSize) code(k *coder) FeatureValue {
	u32(k, &f)
	return f
}

func (f SampleTimes) code(k *coder) FeatureValue {
	u64(k, &f.First, &f.Last)
	return f
}

func (f BuildIDs) code(k *coder) FeatureValue {
	if !k.writing {
		return k.readBuildIDs()
	}
	for i := range f {
		start := len(k.out)
		k.out = appendRecordHeader(k.out, 0)
		k.misc = 0
		f[i].codeEntry(k)
		endRecord(k.out, start, k.misc)
	}
	return f
}

func (k *coder) readBuildIDs() (ids BuildIDs) {
	for len(k.in.b) > 0 {
		k.in.u32() // type: 0, as perf writes it
		misc, size := Misc(k.in.u16()), int(k.in.u16())
		if size < recordHeaderSize+buildIDSize {
			k.fail("an entry of %d bytes is too short for a build ID", size)
			break
		}
		entry := coder{in: cursor{b: k.in.bytes(size - recordHeaderSize), big: k.in.big}, misc: misc}
		if k.in.short {
			break
		}
		var id HeaderBuildID
		id.codeEntry(&entry)
		ids = append(ids, id)
	}
	return ids
}

func (f EventDescriptions) code(k *coder) FeatureValue {
	size := minPipeAttrSize
	for i := range f {
		size = f[i].Attr.sizeFrom(size)
	}
	n, attrSize := uint32(len(f)), uint32(size)
	u32(k, &n, &attrSize)
	if attrSize < minAttrSize || attrSize > maxAttrSize {
		k.fail("attributes of %d bytes", attrSize)
		return nil
	}
	for i := range room(k, &f, uint64(n), int(attrSize)+8) {
		e := &f[i]
		k.attribute(&e.Attr, int(attrSize))
		ids := uint32(len(e.IDs))
		u32(k, &ids)
		k.headerString(&e.Name)
		k.u64s(&e.IDs, uint64(ids))
	}
	return f
}

func (f CPUTopology) code(k *coder) FeatureValue {
	k.headerStrings(&f.Packages)
	k.headerStrings(&f.Cores)
	if !k.more(true) {
		return f
	}
	for i := range room(k, &f.CPUs, uint64(k.cpus), 8) {
		u32(k, &f.CPUs[i].Core, &f.CPUs[i].Socket)
	}
	if !k.more(len(f.Dies) > 0) {
		return f
	}
	k.headerStrings(&f.Dies)
	for i := range f.CPUs {
		u32(k, &f.CPUs[i].Die)
	}
	return f
}

func (f NUMATopology) code(k *coder) FeatureValue {
	for i := range elements32(k, &f, 24) {
		u32(k, &f[i].Node)
		u64(k, &f[i].MemTotal, &f[i].MemFree)
		k.headerString(&f[i].CPUs)
	}
	return f
}

func (f PMUMappings) code(k *coder) FeatureValue {
	for i := range elements32(k, &f, 8) {
		u32(k, &f[i].Type)
		k.headerString(&f[i].Name)
	}
	return f
}

func (f GroupDescriptions) code(k *coder) FeatureValue {
	for i := range elements32(k, &f, 12) {
		k.headerString(&f[i].Name)
		u32(k, &f[i].Leader, &f[i].Members)
	}
	return f
}

func (f AuxtraceIndex) code(k *coder) FeatureValue {
	for i := range elements64(k, &f, 16) {
		u64(k, &f[i].Offset, &f[i].Size)
	}
	return f
}

func (f Caches) code(k *coder) FeatureValue {
	version := uint32(1)
	u32(k, &version)
	k.version1(uint64(version))
	for i := range elements32(k, &f, 28) {
		c := &f[i]
		u32(k, &c.Level, &c.LineSize, &c.Sets, &c.Ways)
		k.headerString(&c.Type, &c.Size, &c.CPUs)
	}
	return f
}

func (f MemTopology) code(k *coder) FeatureValue {
	version := uint64(1)
	u64(k, &version, &f.BlockSize)
	k.version1(version)
	for i := range elements64(k, &f.Nodes, 24) {
		n := &f.Nodes[i]
		u64(k, &n.Node, &n.Size)
		blocks := n.Size
		if u64(k, &blocks); blocks != n.Size {
			k.fail("node %d has %d blocks and a bitmap of %d", n.Node, n.Size, blocks)
		}
		k.u64s(&n.Blocks, blocks/64+min(blocks%64, 1))
	}
	return f
}

func (f Compression) code(k *coder) FeatureValue {
	u32(k, &f.Version, &f.Type, &f.Level, &f.Ratio, &f.MmapLen)
	return f
}

func (f CPUPMUCaps) code(k *coder) FeatureValue {
	for i := range elements32(k, &f, 8) {
		k.headerString(&f[i].Name, &f[i].Value)
	}
	return f
}

func (f PMUCaps) code(k *coder) FeatureValue {
	for i := range elements32(k, &f, 8) {
		f[i].Caps = CPUPMUCaps(f[i].Caps).code(k).(CPUPMUCaps)
		k.headerString(&f[i].PMU)
	}
	return f
}

func (f ClockData) code(k *coder) FeatureValue {
	version := uint32(1)
	u32(k, &version, &f.ClockID)
	k.version1(uint64(version))
	u64(k, &f.WallClock, &f.Clock)
	return f
}

func (f HybridTopology) code(k *coder) FeatureValue {
	for i := range elements32(k, &f, 8) {
		k.headerString(&f[i].PMU, &f[i].CPUs)
	}
	return f
}
