package perfdata

import (
	"fmt"
	"math"
)

// userRecord decodes a record of perf's own without its header. It is nil if the type is not known.
func (c *cursor) userRecord(t RecordType, m Misc) (Value, error) {
	switch t {
	case RecordHeaderAttr:
		return c.headerAttr()
	case RecordHeaderEventType:
		return &HeaderEventType{ID: c.u64(), Name: cString(c.b)}, nil
	case RecordHeaderTracingData:
		return &HeaderTracingData{Size: c.u32()}, nil
	case RecordHeaderBuildID:
		return c.headerBuildID(m), nil
	case RecordFinishedRound:
		return &FinishedRound{}, nil
	case RecordFinishedInit:
		return &FinishedInit{}, nil
	case RecordIDIndex:
		return c.idIndex(), nil
	case RecordAuxtraceInfo:
		r := &AuxtraceInfo{Type: c.u32()}
		c.u32()
		r.Priv = c.u64s(uint64(len(c.b) / 8))
		return r, nil
	case RecordAuxtrace:
		return &Auxtrace{Size: c.u64(), Offset: c.u64(), Reference: c.u64(), Index: c.u32(), TID: c.i32(), CPU: c.i32()}, nil
	case RecordAuxtraceError:
		return c.auxtraceError(), nil
	case RecordThreadMap:
		return c.threadMap(), nil
	case RecordCPUMap:
		r, err := c.cpuMap()
		return &r, err
	case RecordStatConfig:
		return c.statConfig(), nil
	case RecordStat:
		return &Stat{ID: c.u64(), CPU: c.i32(), Thread: c.i32(), Value: c.u64(), Enabled: c.u64(), Running: c.u64()}, nil
	case RecordStatRound:
		return &StatRound{Type: c.u64(), Time: c.u64()}, nil
	case RecordEventUpdate:
		return c.eventUpdate()
	case RecordTimeConv:
		return c.timeConv(), nil
	case RecordHeaderFeature:
		return &HeaderFeature{ID: FeatureID(c.u64()), Data: append([]byte(nil), c.b...)}, nil
	case RecordBPFMetadata:
		if r := c.bpfMetadata(); r != nil {
			return r, nil
		}
	}
	return nil, nil
}

// headerAttr takes the size of the attribute from itself, as the IDs follow it at once.
func (c *cursor) headerAttr() (Value, error) {
	if len(c.b) < minAttrSize {
		return nil, errShort
	}
	size := cursor{b: c.b[4:8], big: c.big}
	n := int(size.u32())
	if n < minAttrSize || n > len(c.b) {
		return nil, fmt.Errorf("an attribute of %d bytes in a record of %d", n, len(c.b))
	}
	attr, err := decodeAttr(c.bytes(n), c.big)
	if err != nil {
		return nil, err
	}
	return &HeaderAttr{Attr: attr, IDs: c.u64s(uint64(len(c.b) / 8))}, nil
}

func (c *cursor) idIndex() *IDIndex {
	n := c.u64()
	r := &IDIndex{Entries: make([]IDIndexEntry, c.count(n, 32))}
	for i := range r.Entries {
		r.Entries[i] = IDIndexEntry{ID: c.u64(), Index: c.u64(), CPU: int64(c.u64()), TID: int64(c.u64())}
	}
	if len(c.b) == 0 {
		return r
	}
	r.Guests = make([]IDIndexGuest, c.count(n, 16))
	for i := range r.Guests {
		r.Guests[i] = IDIndexGuest{MachinePID: c.u64(), VCPU: c.u64()}
	}
	return r
}

const auxtraceMessageSize = 64 // MAX_AUXTRACE_ERROR_MSG

func (c *cursor) auxtraceError() *AuxtraceError {
	r := &AuxtraceError{Type: c.u32(), Code: c.u32(), CPU: c.i32(), PID: c.i32(), TID: c.i32(), Format: c.u32(), IP: c.u64()}
	if r.Format >= 1 {
		r.Time = c.u64()
	}
	r.Message = c.text(min(auxtraceMessageSize, len(c.b)))
	if r.Format >= 2 {
		r.MachinePID, r.VCPU = c.i32(), c.i32()
	}
	return r
}

func (c *cursor) threadMap() *ThreadMap {
	r := &ThreadMap{Threads: make([]MappedThread, c.count(c.u64(), 24))}
	for i := range r.Threads {
		r.Threads[i] = MappedThread{TID: int64(c.u64()), Comm: c.text(16)}
	}
	return r
}

// The encodings of struct perf_record_cpu_map_data.
const (
	cpuMapCPUs  = 0
	cpuMapMask  = 1
	cpuMapRange = 2
)

const anyCPU = math.MaxUint16 // -1

// maxMaskWords bounds the CPUs that a record of 64 KiB can tell of, all of which are listed.
const maxMaskWords = 1 << 13

func (c *cursor) cpuMap() (m CPUMap, err error) {
	switch encoding := c.u16(); encoding {
	case cpuMapCPUs:
		for range c.count(uint64(c.u16()), 2) {
			m.add(c.u16())
		}
	case cpuMapMask:
		return c.cpuMask()
	case cpuMapRange:
		hasAny := c.bytes(2)
		first, last := c.u16(), c.u16()
		if c.short {
			return m, nil
		}
		m.Any = hasAny[0] != 0
		for cpu := int(first); cpu <= int(last); cpu++ {
			m.CPUs = append(m.CPUs, cpu)
		}
	default:
		return m, fmt.Errorf("a list of CPUs of type %d", encoding)
	}
	return m, nil
}

func (m *CPUMap) add(cpu uint16) {
	if cpu == anyCPU {
		m.Any = true
		return
	}
	m.CPUs = append(m.CPUs, int(cpu))
}

func (c *cursor) cpuMask() (m CPUMap, err error) {
	n, width := uint64(c.u16()), int(c.u16())
	word := func() uint64 { return uint64(c.u32()) }
	switch width {
	case 4:
	case 8:
		c.u32()
		word = c.u64
	default:
		return m, fmt.Errorf("a mask of CPUs in words of %d bytes", width)
	}
	for i := range min(c.count(n, width), maxMaskWords) {
		w := word()
		for bit := range width * 8 {
			if w>>bit&1 != 0 {
				m.CPUs = append(m.CPUs, i*width*8+bit)
			}
		}
	}
	return m, nil
}

func (c *cursor) statConfig() *StatConfig {
	r := &StatConfig{Terms: make([]StatConfigTerm, c.count(c.u64(), 16))}
	for i := range r.Terms {
		r.Terms[i] = StatConfigTerm{Tag: c.u64(), Value: c.u64()}
	}
	return r
}

func (c *cursor) eventUpdate() (Value, error) {
	r := &EventUpdate{Kind: c.u64(), ID: c.u64()}
	var err error
	switch r.Kind {
	case EventUpdateUnit:
		r.Unit = cString(c.b)
	case EventUpdateScale:
		r.Scale = math.Float64frombits(c.u64())
	case EventUpdateName:
		r.Name = cString(c.b)
	case EventUpdateCPUs:
		r.CPUs, err = c.cpuMap()
	default:
		return nil, nil
	}
	return r, err
}

func (c *cursor) timeConv() *TimeConv {
	r := &TimeConv{Shift: c.u64(), Mult: c.u64(), Zero: c.u64()}
	if len(c.b) == 0 {
		return r
	}
	r.HasCycles = true
	r.Cycles, r.Mask = c.u64(), c.u64()
	if caps := c.bytes(8); caps != nil {
		r.CapZero, r.CapShort = caps[0] != 0, caps[1] != 0
	}
	return r
}

const (
	metadataKeySize   = 64
	metadataValueSize = 256
	maxTrailerSize    = 48 // six fields: trailerFields
)

// bpfMetadata decodes the record whose first field is as long as names of symbols could be when that perf was built
// (KSYM_NAME_LEN), which only the size of the whole tells. It may have a trailer, which perf leaves empty. The value is nil if no length
// fits.
func (c *cursor) bpfMetadata() *BPFMetadata {
	for _, nameSize := range [...]int{512, 256, 128} {
		if len(c.b) < nameSize+8 {
			continue
		}
		d := cursor{b: c.b, big: c.big}
		r := &BPFMetadata{Program: d.text(nameSize)}
		n := d.count(d.u64(), metadataKeySize+metadataValueSize)
		if d.short || len(d.b)-n*(metadataKeySize+metadataValueSize) > maxTrailerSize {
			continue
		}
		for range n {
			r.Entries = append(r.Entries, BPFMetadataEntry{Key: d.text(metadataKeySize), Value: d.text(metadataValueSize)})
		}
		return r
	}
	return nil
}

func (r *HeaderAttr) misc() Misc        { return 0 }
func (r *HeaderEventType) misc() Misc   { return 0 }
func (r *HeaderTracingData) misc() Misc { return 0 }
func (r *HeaderBuildID) misc() Misc     { return r.Misc | MiscBuildIDSize }
func (r *FinishedRound) misc() Misc     { return 0 }
func (r *FinishedInit) misc() Misc      { return 0 }
func (r *IDIndex) misc() Misc           { return 0 }
func (r *AuxtraceInfo) misc() Misc      { return 0 }
func (r *Auxtrace) misc() Misc          { return 0 }
func (r *AuxtraceError) misc() Misc     { return 0 }
func (r *ThreadMap) misc() Misc         { return 0 }
func (r *CPUMap) misc() Misc            { return 0 }
func (r *StatConfig) misc() Misc        { return 0 }
func (r *Stat) misc() Misc              { return 0 }
func (r *StatRound) misc() Misc         { return 0 }
func (r *EventUpdate) misc() Misc       { return 0 }
func (r *TimeConv) misc() Misc          { return 0 }
func (r *HeaderFeature) misc() Misc     { return 0 }
func (r *BPFMetadata) misc() Misc       { return 0 }
func (r *Unknown) misc() Misc           { return 0 }

func (r *HeaderAttr) appendBody(b []byte, _ *Attr) []byte {
	return appendU64s(appendAttr(b, &r.Attr, r.Attr.size()), r.IDs)
}

func (r *HeaderEventType) appendBody(b []byte, _ *Attr) []byte {
	return appendText(appendU64(b, r.ID), r.Name, 64)
}

// appendBody is without the formats, which follow the record.
func (r *HeaderTracingData) appendBody(b []byte, _ *Attr) []byte {
	return appendU32(appendU32(b, r.Size), 0)
}

// appendBody makes whole words of it, other than in the feature BUILD_ID: perf 7.2 gives up at a record that is not.
func (r *HeaderBuildID) appendBody(b []byte, _ *Attr) []byte { return appendZeros(r.append(b), 4) }

func (r *FinishedRound) appendBody(b []byte, _ *Attr) []byte { return b }
func (r *FinishedInit) appendBody(b []byte, _ *Attr) []byte  { return b }

func (r *IDIndex) appendBody(b []byte, _ *Attr) []byte {
	b = appendU64(b, uint64(len(r.Entries)))
	for _, e := range r.Entries {
		b = appendU64(appendU64(appendU64(appendU64(b, e.ID), e.Index), uint64(e.CPU)), uint64(e.TID))
	}
	for _, g := range r.Guests {
		b = appendU64(appendU64(b, g.MachinePID), g.VCPU)
	}
	return b
}

func (r *AuxtraceInfo) appendBody(b []byte, _ *Attr) []byte {
	return appendU64s(appendU32(appendU32(b, r.Type), 0), r.Priv)
}

// appendBody is without the piece of the AUX area, which follows the record.
func (r *Auxtrace) appendBody(b []byte, _ *Attr) []byte {
	b = appendU64(appendU64(appendU64(b, r.Size), r.Offset), r.Reference)
	return appendU32(appendU32(appendU32(appendU32(b, r.Index), uint32(r.TID)), uint32(r.CPU)), 0)
}

func (r *AuxtraceError) appendBody(b []byte, _ *Attr) []byte {
	b = appendTask(appendU32(appendU32(appendU32(b, r.Type), r.Code), uint32(r.CPU)), r.PID, r.TID)
	b = appendU64(appendU32(b, r.Format), r.IP)
	if r.Format >= 1 {
		b = appendU64(b, r.Time)
	}
	b = appendText(b, r.Message, auxtraceMessageSize)
	if r.Format >= 2 {
		b = appendTask(b, r.MachinePID, r.VCPU)
	}
	return b
}

func (r *ThreadMap) appendBody(b []byte, _ *Attr) []byte {
	b = appendU64(b, uint64(len(r.Threads)))
	for _, t := range r.Threads {
		b = appendText(appendU64(b, uint64(t.TID)), t.Comm, 16)
	}
	return b
}

func (r *CPUMap) appendBody(b []byte, _ *Attr) []byte {
	b, size := r.appendList(b)
	return appendZeros(b, roundUp(size, 8)-size)
}

// appendList writes the CPUs one by one, and tells how many bytes that took.
func (r *CPUMap) appendList(b []byte) ([]byte, int) {
	start := len(b)
	n := len(r.CPUs)
	if r.Any {
		n++
	}
	b = appendU16(appendU16(b, cpuMapCPUs), uint16(n))
	if r.Any {
		b = appendU16(b, anyCPU)
	}
	for _, cpu := range r.CPUs {
		b = appendU16(b, uint16(cpu))
	}
	return b, len(b) - start
}

func (r *StatConfig) appendBody(b []byte, _ *Attr) []byte {
	b = appendU64(b, uint64(len(r.Terms)))
	for _, t := range r.Terms {
		b = appendU64(appendU64(b, t.Tag), t.Value)
	}
	return b
}

func (r *Stat) appendBody(b []byte, _ *Attr) []byte {
	b = appendTask(appendU64(b, r.ID), r.CPU, r.Thread)
	return appendU64(appendU64(appendU64(b, r.Value), r.Enabled), r.Running)
}

func (r *StatRound) appendBody(b []byte, _ *Attr) []byte {
	return appendU64(appendU64(b, r.Type), r.Time)
}

func (r *EventUpdate) appendBody(b []byte, attr *Attr) []byte {
	b = appendU64(appendU64(b, r.Kind), r.ID)
	switch r.Kind {
	case EventUpdateUnit:
		return appendPadded(b, r.Unit, 8)
	case EventUpdateScale:
		return appendU64(b, math.Float64bits(r.Scale))
	case EventUpdateName:
		return appendPadded(b, r.Name, 8)
	default:
		return r.CPUs.appendBody(b, attr)
	}
}

func (r *TimeConv) appendBody(b []byte, _ *Attr) []byte {
	b = appendU64(appendU64(appendU64(b, r.Shift), r.Mult), r.Zero)
	if !r.HasCycles {
		return b
	}
	b = appendU64(appendU64(b, r.Cycles), r.Mask)
	var caps [8]byte
	if r.CapZero {
		caps[0] = 1
	}
	if r.CapShort {
		caps[1] = 1
	}
	return append(b, caps[:]...)
}

func (r *HeaderFeature) appendBody(b []byte, _ *Attr) []byte {
	return append(appendU64(b, uint64(r.ID)), r.Data...)
}

func (r *BPFMetadata) appendBody(b []byte, _ *Attr) []byte {
	b = appendU64(appendText(b, r.Program, 512), uint64(len(r.Entries)))
	for _, e := range r.Entries {
		b = appendText(appendText(b, e.Key, metadataKeySize), e.Value, metadataValueSize)
	}
	return b
}

func (r *Unknown) appendBody(b []byte, _ *Attr) []byte { return append(b, r.Data...) }
