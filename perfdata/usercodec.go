package perfdata

import "math"

func (r *HeaderAttr) code(k *coder) {
	if k.writing {
		k.out = appendU64s(appendAttr(k.out, &r.Attr, r.Attr.size()), r.IDs)
		return
	}
	if len(k.in.b) < minAttrSize {
		k.in.short = true
		return
	}
	size := cursor{b: k.in.b[4:8], big: k.in.big} // the IDs follow the attribute at once
	n := int(size.u32())
	if n < minAttrSize || n > len(k.in.b) {
		k.fail("an attribute of %d bytes in a record of %d", n, len(k.in.b))
		return
	}
	k.attribute(&r.Attr, n)
	r.IDs = k.in.u64s(uint64(len(k.in.b) / 8))
}

// attribute is struct perf_event_attr of size bytes.
func (k *coder) attribute(a *Attr, size int) {
	if k.writing {
		k.out = appendAttr(k.out, a, size)
		return
	}
	b := k.in.bytes(size)
	if k.in.short {
		return
	}
	var err error
	if *a, err = decodeAttr(b, k.in.big); err != nil {
		k.fail("%w", err)
	}
}

func (r *HeaderEventType) code(k *coder) {
	u64(k, &r.ID)
	k.text(&r.Name, 64)
}

// code is without the formats, which follow the record.
func (r *HeaderTracingData) code(k *coder) {
	u32(k, &r.Size)
	if k.writing {
		k.pad(4)
	}
}

// code makes whole words of it, other than in the feature BUILD_ID: perf 7.2 gives up at a record that is not.
func (r *HeaderBuildID) code(k *coder) {
	r.codeEntry(k)
	if k.writing {
		k.pad(4)
	}
}

// codeEntry is an entry of the feature BUILD_ID without its header.
func (r *HeaderBuildID) codeEntry(k *coder) {
	u32(k, &r.PID)
	var id [24]byte // the ID, its size, and three bytes of 0
	id[20] = uint8(copy(id[:20], r.BuildID))
	k.array(id[:])
	k.rest(&r.Filename, nameAlign)
	if k.writing {
		k.misc |= r.Misc | MiscBuildIDSize
		return
	}
	r.Misc = k.misc &^ MiscBuildIDSize
	size := 20
	if k.misc&MiscBuildIDSize != 0 {
		size = min(int(id[20]), 20)
	}
	r.BuildID = append([]byte(nil), id[:size]...)
}

func (r *FinishedRound) code(*coder) {}
func (r *FinishedInit) code(*coder)  {}

func (r *IDIndex) code(k *coder) {
	for i := range elements64(k, &r.Entries, 32) {
		e := &r.Entries[i]
		u64(k, &e.ID, &e.Index)
		u64(k, &e.CPU, &e.TID)
	}
	if !k.more(len(r.Guests) > 0) {
		return
	}
	for i := range room(k, &r.Guests, uint64(len(r.Entries)), 16) {
		u64(k, &r.Guests[i].MachinePID, &r.Guests[i].VCPU)
	}
}

func (r *AuxtraceInfo) code(k *coder) {
	u32(k, &r.Type)
	k.pad(4)
	k.u64s(&r.Priv, uint64(len(k.in.b)/8))
}

// code is without the piece of the AUX area, which follows the record.
func (r *Auxtrace) code(k *coder) {
	u64(k, &r.Size, &r.Offset, &r.Reference)
	u32(k, &r.Index)
	u32(k, &r.TID, &r.CPU)
	if k.writing {
		k.pad(4)
	}
}

func (r *AuxtraceError) code(k *coder) {
	u32(k, &r.Type, &r.Code)
	u32(k, &r.CPU, &r.PID, &r.TID)
	u32(k, &r.Format)
	u64(k, &r.IP)
	if r.Format >= 1 {
		u64(k, &r.Time)
	}
	k.text(&r.Message, 64) // MAX_AUXTRACE_ERROR_MSG
	if r.Format >= 2 {
		u32(k, &r.MachinePID, &r.VCPU)
	}
}

func (r *ThreadMap) code(k *coder) {
	for i := range elements64(k, &r.Threads, 24) {
		u64(k, &r.Threads[i].TID)
		k.text(&r.Threads[i].Comm, 16)
	}
}

// The encodings of struct perf_record_cpu_map_data.
const (
	cpuMapCPUs  = 0
	cpuMapMask  = 1
	cpuMapRange = 2
)

const anyCPU = math.MaxUint16 // -1

// maxMaskWords bounds the CPUs that a record of 64 KiB can list, all of which get an element.
const maxMaskWords = 1 << 13

// code writes the CPUs one by one.
func (r *CPUMap) code(k *coder) {
	if !k.writing {
		k.readCPUs(r)
		return
	}
	start := len(k.out)
	n := len(r.CPUs)
	if r.Any {
		n++
	}
	k.out = appendU16(appendU16(k.out, cpuMapCPUs), uint16(n))
	if r.Any {
		k.out = appendU16(k.out, anyCPU)
	}
	for _, cpu := range r.CPUs {
		k.out = appendU16(k.out, uint16(cpu))
	}
	size := len(k.out) - start
	k.pad(roundUp(size, 8) - size)
}

func (k *coder) readCPUs(r *CPUMap) {
	c := &k.in
	switch encoding := c.u16(); encoding {
	case cpuMapCPUs:
		for range c.count(uint64(c.u16()), 2) {
			r.add(c.u16())
		}
	case cpuMapMask:
		k.readCPUMask(r)
	case cpuMapRange:
		hasAny := c.bytes(2)
		first, last := c.u16(), c.u16()
		if c.short {
			return
		}
		r.Any = hasAny[0] != 0
		for cpu := int(first); cpu <= int(last); cpu++ {
			r.CPUs = append(r.CPUs, cpu)
		}
	default:
		k.fail("a list of CPUs of type %d", encoding)
	}
}

func (r *CPUMap) add(cpu uint16) {
	if cpu == anyCPU {
		r.Any = true
		return
	}
	r.CPUs = append(r.CPUs, int(cpu))
}

func (k *coder) readCPUMask(r *CPUMap) {
	c := &k.in
	n, width := uint64(c.u16()), int(c.u16())
	word := func() uint64 { return uint64(c.u32()) }
	switch width {
	case 4:
	case 8:
		c.u32()
		word = c.u64
	default:
		k.fail("a mask of CPUs in words of %d bytes", width)
		return
	}
	for i := range min(c.count(n, width), maxMaskWords) {
		w := word()
		for bit := range width * 8 {
			if w>>bit&1 != 0 {
				r.CPUs = append(r.CPUs, i*width*8+bit)
			}
		}
	}
}

func (r *StatConfig) code(k *coder) {
	for i := range elements64(k, &r.Terms, 16) {
		u64(k, &r.Terms[i].Tag, &r.Terms[i].Value)
	}
}

func (r *Stat) code(k *coder) {
	u64(k, &r.ID)
	u32(k, &r.CPU, &r.Thread)
	u64(k, &r.Value, &r.Enabled, &r.Running)
}

func (r *StatRound) code(k *coder) { u64(k, &r.Type, &r.Time) }

func (r *EventUpdate) code(k *coder) {
	u64(k, &r.Kind, &r.ID)
	switch r.Kind {
	case EventUpdateUnit:
		k.rest(&r.Unit, 8)
	case EventUpdateScale:
		bits := math.Float64bits(r.Scale)
		u64(k, &bits)
		r.Scale = math.Float64frombits(bits)
	case EventUpdateName:
		k.rest(&r.Name, 8)
	case EventUpdateCPUs:
		r.CPUs.code(k)
	default:
		k.unknown = true
	}
}

func (r *TimeConv) code(k *coder) {
	u64(k, &r.Shift, &r.Mult, &r.Zero)
	if r.HasCycles = k.more(r.HasCycles); !r.HasCycles {
		return
	}
	u64(k, &r.Cycles, &r.Mask)
	var caps [8]byte
	if r.CapZero {
		caps[0] = 1
	}
	if r.CapShort {
		caps[1] = 1
	}
	k.array(caps[:])
	r.CapZero, r.CapShort = caps[0] != 0, caps[1] != 0
}

func (r *HeaderFeature) code(k *coder) {
	id := uint64(r.ID)
	u64(k, &id)
	r.ID = FeatureID(id)
	k.bytes(&r.Data, len(k.in.b))
}

const (
	metadataKeySize   = 64
	metadataValueSize = 256
	metadataSize      = metadataKeySize + metadataValueSize
	maxTrailerSize    = 48 // six fields: trailerFields
)

// code reads the record whose first field is as long as names of symbols could be when that perf was built (KSYM_NAME_LEN), which only the
// size of the whole shows. It may have a trailer, which perf leaves empty. The record is unknown if no length fits.
func (r *BPFMetadata) code(k *coder) {
	if k.writing {
		r.codeWith(k, 512)
		return
	}
	whole := k.in
	for _, nameSize := range [...]int{512, 256, 128} {
		if k.in = whole; len(k.in.b) < nameSize+8 {
			continue
		}
		if r.codeWith(k, nameSize); !k.in.short && len(k.in.b) <= maxTrailerSize {
			return
		}
	}
	k.in, k.unknown = whole, true
}

func (r *BPFMetadata) codeWith(k *coder, nameSize int) {
	k.text(&r.Program, nameSize)
	for i := range elements64(k, &r.Entries, metadataSize) {
		k.text(&r.Entries[i].Key, metadataKeySize)
		k.text(&r.Entries[i].Value, metadataValueSize)
	}
}

func (r *Unknown) code(k *coder) { k.out = append(k.out, r.Data...) }
