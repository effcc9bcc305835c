package perfdata

import "fmt"

// decodeFeature decodes a feature. With an error there are the build IDs that stand in front of it, and nothing of other features. cpus are the available CPUs that the feature NRCPUS tells of, which CPU_TOPOLOGY does not repeat.
func decodeFeature(id FeatureID, data []byte, big bool, cpus uint32) (FeatureValue, error) {
	c := &cursor{b: data, big: big}
	v, err := c.feature(id, cpus)
	if err == nil && c.short {
		err = fmt.Errorf("its %d bytes end before what they tell of does", len(data))
	}
	if err == nil {
		return v, nil
	}
	if id != FeatureBuildID {
		v = nil
	}
	return v, fmt.Errorf("feature %s: %w", id, err)
}

func (c *cursor) feature(id FeatureID, cpus uint32) (FeatureValue, error) {
	switch id {
	case FeatureTracingData:
		return TracingData(c.b), nil
	case FeatureBuildID:
		return c.buildIDs()
	case FeatureHostname, FeatureOSRelease, FeatureVersion, FeatureArch, FeatureCPUDesc, FeatureCPUID:
		return Text(c.headerString()), nil
	case FeatureNRCPUs:
		return NRCPUs{Available: c.u32(), Online: c.u32()}, nil
	case FeatureTotalMem:
		return TotalMem(c.u64()), nil
	case FeatureCmdline:
		return CommandLine(c.headerStrings()), nil
	case FeatureEventDesc:
		return c.eventDescriptions()
	case FeatureCPUTopology:
		return c.cpuTopology(cpus), nil
	case FeatureNUMATopology:
		return c.numaTopology(), nil
	case FeatureBranchStack, FeatureStat:
		return Flag{}, nil
	case FeaturePMUMappings:
		return c.pmuMappings(), nil
	case FeatureGroupDesc:
		return c.groupDescriptions(), nil
	case FeatureAuxtrace:
		return c.auxtraceIndex(), nil
	case FeatureCache:
		return c.caches()
	case FeatureSampleTime:
		return SampleTimes{First: c.u64(), Last: c.u64()}, nil
	case FeatureMemTopology:
		return c.memTopology()
	case FeatureClockID:
		return ClockResolution(c.u64()), nil
	case FeatureDirFormat:
		return DirFormat(c.u64()), nil
	case FeatureCompressed:
		return Compression{Version: c.u32(), Type: c.u32(), Level: c.u32(), Ratio: c.u32(), MmapLen: c.u32()}, nil
	case FeatureCPUPMUCaps:
		return CPUPMUCaps(c.pmuCaps()), nil
	case FeatureClockData:
		return c.clockData()
	case FeatureHybridTopology:
		return c.hybridTopology(), nil
	case FeaturePMUCaps:
		return c.allPMUCaps(), nil
	case FeatureEMachine:
		return EMachine{Machine: c.u32(), Flags: c.u32()}, nil
	}
	return Opaque(c.b), nil
}

func (c *cursor) buildIDs() (BuildIDs, error) {
	var ids BuildIDs
	for len(c.b) > 0 {
		c.u32() // type: 0, as perf writes it
		misc, size := Misc(c.u16()), int(c.u16())
		if size < recordHeaderSize+buildIDSize {
			return ids, fmt.Errorf("an entry of %d bytes is too short for a build ID", size)
		}
		entry := cursor{b: c.bytes(size - recordHeaderSize), big: c.big}
		if c.short {
			break
		}
		ids = append(ids, *entry.headerBuildID(misc))
	}
	return ids, nil
}

func (c *cursor) eventDescriptions() (EventDescriptions, error) {
	n, size := c.u32(), int(c.u32())
	if size < minAttrSize || size > maxAttrSize {
		return nil, fmt.Errorf("attributes of %d bytes", size)
	}
	events := make(EventDescriptions, c.count(uint64(n), size+8))
	for i := range events {
		e := &events[i]
		attr := c.bytes(size)
		ids := c.u32()
		e.Name = c.headerString()
		e.IDs = c.u64s(uint64(ids))
		if c.short {
			return nil, nil
		}
		var err error
		if e.Attr, err = decodeAttr(attr, c.big); err != nil {
			return nil, err
		}
	}
	return events, nil
}

func (c *cursor) cpuTopology(cpus uint32) CPUTopology {
	t := CPUTopology{Packages: c.headerStrings(), Cores: c.headerStrings()}
	if len(c.b) == 0 {
		return t
	}
	t.CPUs = make([]CPUPlace, c.count(uint64(cpus), 8))
	for i := range t.CPUs {
		t.CPUs[i].Core, t.CPUs[i].Socket = c.u32(), c.u32()
	}
	if len(c.b) == 0 {
		return t
	}
	t.Dies = c.headerStrings()
	for i := range t.CPUs {
		t.CPUs[i].Die = c.u32()
	}
	return t
}

func (c *cursor) numaTopology() NUMATopology {
	nodes := make(NUMATopology, c.count(uint64(c.u32()), 24))
	for i := range nodes {
		nodes[i] = NUMANode{Node: c.u32(), MemTotal: c.u64(), MemFree: c.u64(), CPUs: c.headerString()}
	}
	return nodes
}

func (c *cursor) pmuMappings() PMUMappings {
	pmus := make(PMUMappings, c.count(uint64(c.u32()), 8))
	for i := range pmus {
		pmus[i] = PMUMapping{Type: c.u32(), Name: c.headerString()}
	}
	return pmus
}

func (c *cursor) groupDescriptions() GroupDescriptions {
	groups := make(GroupDescriptions, c.count(uint64(c.u32()), 12))
	for i := range groups {
		groups[i] = GroupDescription{Name: c.headerString(), Leader: c.u32(), Members: c.u32()}
	}
	return groups
}

func (c *cursor) auxtraceIndex() AuxtraceIndex {
	entries := make(AuxtraceIndex, c.count(c.u64(), 16))
	for i := range entries {
		entries[i] = AuxtraceIndexEntry{Offset: c.u64(), Size: c.u64()}
	}
	return entries
}

func (c *cursor) caches() (Caches, error) {
	if version := c.u32(); version != 1 && !c.short {
		return nil, fmt.Errorf("version %d, not 1", version)
	}
	caches := make(Caches, c.count(uint64(c.u32()), 28))
	for i := range caches {
		caches[i] = Cache{Level: c.u32(), LineSize: c.u32(), Sets: c.u32(), Ways: c.u32(),
			Type: c.headerString(), Size: c.headerString(), CPUs: c.headerString()}
	}
	return caches, nil
}

func (c *cursor) memTopology() (t MemTopology, err error) {
	if version := c.u64(); version != 1 && !c.short {
		return t, fmt.Errorf("version %d, not 1", version)
	}
	t.BlockSize = c.u64()
	t.Nodes = make([]MemNode, c.count(c.u64(), 24))
	for i := range t.Nodes {
		n := &t.Nodes[i]
		n.Node, n.Size = c.u64(), c.u64()
		blocks := c.u64()
		if blocks != n.Size && !c.short {
			return t, fmt.Errorf("node %d has %d blocks and a bitmap of %d", n.Node, n.Size, blocks)
		}
		n.Blocks = c.u64s(blocks/64 + min(blocks%64, 1))
	}
	return t, nil
}

func (c *cursor) pmuCaps() []PMUCap {
	caps := make([]PMUCap, c.count(uint64(c.u32()), 8))
	for i := range caps {
		caps[i] = PMUCap{Name: c.headerString(), Value: c.headerString()}
	}
	return caps
}

func (c *cursor) allPMUCaps() PMUCaps {
	pmus := make(PMUCaps, c.count(uint64(c.u32()), 8))
	for i := range pmus {
		pmus[i] = OnePMUCaps{Caps: c.pmuCaps(), PMU: c.headerString()}
	}
	return pmus
}

func (c *cursor) clockData() (d ClockData, err error) {
	if version := c.u32(); version != 1 && !c.short {
		return d, fmt.Errorf("version %d, not 1", version)
	}
	return ClockData{ClockID: c.u32(), WallClock: c.u64(), Clock: c.u64()}, nil
}

func (c *cursor) hybridTopology() HybridTopology {
	pmus := make(HybridTopology, c.count(uint64(c.u32()), 8))
	for i := range pmus {
		pmus[i] = HybridPMU{PMU: c.headerString(), CPUs: c.headerString()}
	}
	return pmus
}

func (f Opaque) appendFeature(b []byte) []byte      { return append(b, f...) }
func (f TracingData) appendFeature(b []byte) []byte { return append(b, f...) }
func (Flag) appendFeature(b []byte) []byte          { return b }
func (f Text) appendFeature(b []byte) []byte        { return appendHeaderString(b, string(f)) }
func (f TotalMem) appendFeature(b []byte) []byte    { return appendU64(b, uint64(f)) }
func (f CommandLine) appendFeature(b []byte) []byte { return appendHeaderStrings(b, f) }
func (f DirFormat) appendFeature(b []byte) []byte   { return appendU64(b, uint64(f)) }
func (f CPUPMUCaps) appendFeature(b []byte) []byte  { return appendPMUCaps(b, f) }

func (f ClockResolution) appendFeature(b []byte) []byte { return appendU64(b, uint64(f)) }

func (f NRCPUs) appendFeature(b []byte) []byte { return appendU32(appendU32(b, f.Available), f.Online) }

func (f EMachine) appendFeature(b []byte) []byte { return appendU32(appendU32(b, f.Machine), f.Flags) }

func (f SampleTimes) appendFeature(b []byte) []byte { return appendU64(appendU64(b, f.First), f.Last) }

func (f BuildIDs) appendFeature(b []byte) []byte {
	for i := range f {
		start := len(b)
		b = appendRecordHeader(b, 0, f[i].misc())
		b = f[i].append(b)
		endRecord(b, start)
	}
	return b
}

func (f EventDescriptions) appendFeature(b []byte) []byte {
	size := minPipeAttrSize
	for i := range f {
		size = f[i].Attr.sizeFrom(size)
	}
	b = appendU32(appendU32(b, uint32(len(f))), uint32(size))
	for i := range f {
		e := &f[i]
		b = appendAttr(b, &e.Attr, size)
		b = appendU32(b, uint32(len(e.IDs)))
		b = appendHeaderString(b, e.Name)
		b = appendU64s(b, e.IDs)
	}
	return b
}

func (f CPUTopology) appendFeature(b []byte) []byte {
	b = appendHeaderStrings(appendHeaderStrings(b, f.Packages), f.Cores)
	for _, p := range f.CPUs {
		b = appendU32(appendU32(b, p.Core), p.Socket)
	}
	if len(f.Dies) == 0 {
		return b
	}
	b = appendHeaderStrings(b, f.Dies)
	for _, p := range f.CPUs {
		b = appendU32(b, p.Die)
	}
	return b
}

func (f NUMATopology) appendFeature(b []byte) []byte {
	b = appendU32(b, uint32(len(f)))
	for _, n := range f {
		b = appendU64(appendU64(appendU32(b, n.Node), n.MemTotal), n.MemFree)
		b = appendHeaderString(b, n.CPUs)
	}
	return b
}

func (f PMUMappings) appendFeature(b []byte) []byte {
	b = appendU32(b, uint32(len(f)))
	for _, p := range f {
		b = appendHeaderString(appendU32(b, p.Type), p.Name)
	}
	return b
}

func (f GroupDescriptions) appendFeature(b []byte) []byte {
	b = appendU32(b, uint32(len(f)))
	for _, g := range f {
		b = appendU32(appendU32(appendHeaderString(b, g.Name), g.Leader), g.Members)
	}
	return b
}

func (f AuxtraceIndex) appendFeature(b []byte) []byte {
	b = appendU64(b, uint64(len(f)))
	for _, e := range f {
		b = appendU64(appendU64(b, e.Offset), e.Size)
	}
	return b
}

func (f Caches) appendFeature(b []byte) []byte {
	b = appendU32(appendU32(b, 1), uint32(len(f)))
	for _, c := range f {
		b = appendU32(appendU32(appendU32(appendU32(b, c.Level), c.LineSize), c.Sets), c.Ways)
		b = appendHeaderString(appendHeaderString(appendHeaderString(b, c.Type), c.Size), c.CPUs)
	}
	return b
}

func (f MemTopology) appendFeature(b []byte) []byte {
	b = appendU64(appendU64(appendU64(b, 1), f.BlockSize), uint64(len(f.Nodes)))
	for _, n := range f.Nodes {
		b = appendU64(appendU64(b, n.Node), n.Size)
		b = appendU64s(appendU64(b, n.Size), n.Blocks)
	}
	return b
}

func (f Compression) appendFeature(b []byte) []byte {
	return appendU32(appendU32(appendU32(appendU32(appendU32(b, f.Version), f.Type), f.Level), f.Ratio), f.MmapLen)
}

func appendPMUCaps(b []byte, caps []PMUCap) []byte {
	b = appendU32(b, uint32(len(caps)))
	for _, c := range caps {
		b = appendHeaderString(appendHeaderString(b, c.Name), c.Value)
	}
	return b
}

func (f PMUCaps) appendFeature(b []byte) []byte {
	b = appendU32(b, uint32(len(f)))
	for _, p := range f {
		b = appendHeaderString(appendPMUCaps(b, p.Caps), p.PMU)
	}
	return b
}

func (f ClockData) appendFeature(b []byte) []byte {
	return appendU64(appendU64(appendU32(appendU32(b, 1), f.ClockID), f.WallClock), f.Clock)
}

func (f HybridTopology) appendFeature(b []byte) []byte {
	b = appendU32(b, uint32(len(f)))
	for _, p := range f {
		b = appendHeaderString(appendHeaderString(b, p.PMU), p.CPUs)
	}
	return b
}
