package perfdata

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// everyFeature has a value for each feature, without a zero field.
var everyFeature = map[FeatureID]FeatureValue{
	FeatureTracingData: TracingData("formats"),
	FeatureBuildID: BuildIDs{{MiscKernel, -1, []byte("0123456789abcdef0123"), "[kernel.kallsyms]"},
		{MiscUser, 7, []byte("0123456789abcdef"), "/bin/true"}},
	FeatureHostname:       Text("host"),
	FeatureNRCPUs:         NRCPUs{2, 1},
	FeatureTotalMem:       TotalMem(3),
	FeatureCmdline:        CommandLine{"perf", "record"},
	FeatureEventDesc:      EventDescriptions{{everyAttr, "cycles:u", []uint64{1, 2}}, {everyAttr, "", nil}},
	FeatureCPUTopology:    CPUTopology{[]string{"0-1"}, []string{"0", "1"}, []CPUPlace{{0, 1, 2}, {3, 4, 5}}, []string{"0-1"}},
	FeatureNUMATopology:   NUMATopology{{1, 2, 3, "0-1"}},
	FeatureBranchStack:    Flag{},
	FeaturePMUMappings:    PMUMappings{{1, "software"}, {4, "cpu"}},
	FeatureGroupDesc:      GroupDescriptions{{"{anon_group}", 1, 2}},
	FeatureAuxtrace:       AuxtraceIndex{{1, 2}, {3, 4}},
	FeatureCache:          Caches{{1, 64, 3, 4, "Data", "32K", "0-1"}},
	FeatureSampleTime:     SampleTimes{1, 2},
	FeatureMemTopology:    MemTopology{1 << 27, []MemNode{{0, 70, []uint64{1, 2}}}},
	FeatureClockID:        ClockResolution(1),
	FeatureDirFormat:      DirFormat(1),
	FeatureCompressed:     Compression{1, 1, 3, 4, 5},
	FeatureCPUPMUCaps:     CPUPMUCaps{{"branches", "32"}},
	FeatureClockData:      ClockData{1, 2, 3},
	FeatureHybridTopology: HybridTopology{{"cpu_core", "0-1"}},
	FeaturePMUCaps:        PMUCaps{{[]PMUCap{{"branches", "32"}}, "cpu_core"}},
	FeatureEMachine:       EMachine{62, 1},
	FeatureBPFProgInfo:    Opaque("programs"),
	FeatureBPFBTF:         Opaque("BTF"),
}

func TestEveryFeature(t *testing.T) {
	for id, v := range everyFeature {
		got, err := decodeFeature(id, appendFeature(v), false, 2)
		if err != nil {
			t.Error(err)
		}
		if f, is := got.(EventDescriptions); is {
			for i := range f {
				f[i].Attr.Size = 0
			}
		}
		if diff := cmp.Diff(v, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: -written +read\n%s", id, diff)
		}
	}
}

// TestAttrLayout checks that Attr has the layout of PERF_ATTR_SIZE_VER9, whose last field is config4: callers pass it to perf_event_open(2).
func TestAttrLayout(t *testing.T) {
	if size := unsafe.Sizeof(Attr{}); size != 144 {
		t.Errorf("struct perf_event_attr has %d bytes, want 144", size)
	}
	if offset := unsafe.Offsetof(Attr{}.SigData); offset != 120 {
		t.Errorf("sig_data is at %d, want 120", offset)
	}
}

// TestAttrSizes decodes attributes of all sizes that Linux has used.
func TestAttrSizes(t *testing.T) {
	full := appendAttr(nil, &everyAttr, AttrSize)
	for _, size := range []int{64, 72, 80, 96, 104, 112, 120, 128, 136, 144} {
		a, err := decodeAttr(full[:size], false)
		if err != nil {
			t.Fatal(err)
		}
		a.Size = uint32(size)
		if got := appendAttr(nil, &a, size); !bytes.Equal(got[8:], full[8:size]) {
			t.Errorf("%d bytes: %x became %x", size, full[:size], got)
		}
	}
	longer := append(bytes.Clone(full), 1, 2, 3, 4, 5, 6, 7, 8)
	a, err := decodeAttr(longer, false)
	if err != nil || !bytes.Equal(appendAttr(nil, &a, a.size()), full) {
		t.Errorf("a longer attribute is read as %+v (%v)", a, err)
	}
	if _, err := decodeAttr(full[:56], false); err == nil {
		t.Error("56 bytes were read as an attribute")
	}
}

// bigEndian encodes like a big-endian machine.
type bigEndian struct{ b []byte }

func (e *bigEndian) u16(vs ...uint16) {
	for _, v := range vs {
		e.b = binary.BigEndian.AppendUint16(e.b, v)
	}
}

func (e *bigEndian) u32(vs ...uint32) {
	for _, v := range vs {
		e.b = binary.BigEndian.AppendUint32(e.b, v)
	}
}

func (e *bigEndian) u64(vs ...uint64) {
	for _, v := range vs {
		e.b = binary.BigEndian.AppendUint64(e.b, v)
	}
}

func (e *bigEndian) text(s string, size int) { e.b = appendText(e.b, s, size) }

func (e *bigEndian) record(t RecordType, m Misc, body func()) {
	start := len(e.b)
	e.u32(uint32(t))
	e.u16(uint16(m), 0)
	body()
	binary.BigEndian.PutUint16(e.b[start+6:], uint16(len(e.b)-start))
}

// TestBigEndian reads a pipe as perf record -o - would write it on a big-endian machine.
func TestBigEndian(t *testing.T) {
	e := &bigEndian{b: []byte(magicBig)}
	e.u64(pipeHeaderSize)
	sampleType := SampleIP | SampleTID | SampleTime | SampleCPU | SampleCallchain | SampleRaw | SampleBranchStack
	e.record(RecordHeaderAttr, 0, func() {
		e.u32(0, 64)
		e.u64(5, 6, uint64(sampleType), 0)
		e.u64(1<<63 | 2<<(63-16) | 1<<(63-18)) // disabled; precise_ip 2; sample_id_all
		e.u32(7, 0)
		e.u64(8)
		e.u64(77)
	})
	e.record(RecordHeaderFeature, 0, func() {
		e.u64(uint64(FeatureNRCPUs))
		e.u32(4, 3)
	})
	trailer := func(time uint64) {
		e.u32(1, 2)
		e.u64(time)
		e.u32(3, 0)
	}
	e.record(RecordMmap2, MiscUser, func() {
		e.u32(1, 2)
		e.u64(0x1000, 0x2000, 0x3000)
		e.u32(8, 1)
		e.u64(99, 1)
		e.u32(5, 2)
		e.text("/bin/true", 16)
		trailer(1000)
	})
	e.record(RecordBPFEvent, 0, func() {
		e.u16(BPFEventLoad, 0)
		e.u32(9)
		e.b = append(e.b, "eight by"...)
		trailer(1500)
	})
	// Stale bytes of the ring follow these records, as in the rings of the second and third event that get them (table.trim).
	e.record(RecordBPFEvent, 0, func() {
		e.u16(BPFEventUnload, 0)
		e.u32(9)
		e.b = append(e.b, "eight by"...)
		trailer(1600)
		trailer(77)
	})
	e.record(RecordKSymbol, 0, func() {
		e.u64(0x5000)
		e.u32(16)
		e.u16(KSymbolBPF, 0)
		e.text("bpf_prog", 16)
		trailer(1700)
		trailer(0)
		e.u64(0)
	})
	e.record(RecordSample, MiscKernel, func() {
		e.u64(0x401000)
		e.u32(1, 2)
		e.u64(2000)
		e.u32(3, 0)
		e.u64(2, ContextKernel, 0x401000)
		e.u32(4)
		e.b = append(e.b, 1, 2, 3, 4)
		e.u64(1, 10, 20)
		e.u64(1<<62 | 300<<44 | 5<<40) // predicted, 300 cycles, type 5
	})
	r, err := NewPipeReader(bytes.NewReader(e.b))
	if err != nil {
		t.Fatal(err)
	}
	want := []Event{{Attr: Attr{Size: 64, Config: 5, SamplePeriod: 6, SampleType: sampleType,
		Flags: AttrDisabled | AttrPreciseIP2 | AttrSampleIDAll, WakeupEvents: 7, Config1: 8}, IDs: []uint64{77}}}
	if diff := cmp.Diff(want, []Event{*r.Events()[0]}); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if got, err := r.Features().Get(FeatureNRCPUs); err != nil || got != (NRCPUs{4, 3}) {
		t.Errorf("%+v %v", got, err)
	}
	id := func(time uint64) SampleID {
		return SampleID{Fields: SampleTID | SampleTime | SampleCPU, PID: 1, TID: 2, CPU: 3, Time: time}
	}
	sampleID := id(2000)
	sampleID.Fields = sampleType
	wantValues := []Value{
		&Mmap2{SampleID: id(1000), PID: 1, TID: 2, Start: 0x1000, Length: 0x2000, Offset: 0x3000, Major: 8, Minor: 1, Inode: 99,
			InodeGeneration: 1, Protection: 5, Flags: 2, Filename: "/bin/true"},
		&BPFEvent{SampleID: id(1500), Type: BPFEventLoad, ID: 9, Tag: [8]byte([]byte("eight by"))},
		&BPFEvent{SampleID: id(1600), Type: BPFEventUnload, ID: 9, Tag: [8]byte([]byte("eight by"))},
		&KSymbol{SampleID: id(1700), Addr: 0x5000, Size: 16, Type: KSymbolBPF, Name: "bpf_prog"},
		&Sample{SampleID: sampleID, IP: 0x401000, Callchain: []uint64{ContextKernel, 0x401000}, Raw: []byte{1, 2, 3, 4},
			Branches: []Branch{{10, 20, 1<<1 | 300<<4 | 5<<20}}},
	}
	var got []Value
	for rec, err := range r.Records() {
		if err != nil {
			t.Fatal(err)
		}
		if rec.Type < firstUserRecord {
			got = append(got, keep(rec.Value))
		}
	}
	if diff := cmp.Diff(wantValues, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestMergeRuns(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var spare []waiting
	for range 200 {
		items := make([]waiting, random.IntN(300))
		for i := range items {
			items[i] = waiting{time: random.Uint64N(50), where: uint64(i)}
			if i%7 != 0 {
				items[i].time = max(items[i].time, items[i-1].time) // a run
			}
		}
		want := slices.Clone(items)
		slices.SortStableFunc(want, func(a, b waiting) int { return int(a.time) - int(b.time) })
		var got []waiting
		got, spare = mergeRuns(items, spare)
		if !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
}

// TestRounds checks which records the orderer emits at the end of each round.
func TestRounds(t *testing.T) {
	var got []uint64
	o := &orderer{emit: func(i item, _ bool) { got = append(got, i.time) }}
	expect := func(want ...uint64) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		got = nil
	}
	for _, time := range []uint64{30, 40, 10, 20} {
		o.add(item{time: time})
	}
	o.round()
	expect() // a ring that was read early in the round may still have older records
	for _, time := range []uint64{50, 35, 45} {
		o.add(item{time: time})
	}
	o.round()
	expect(10, 20, 30, 35, 40)
	o.round()
	expect(45, 50)
	o.add(item{time: 70})
	o.add(item{time: 60})
	o.end()
	expect(60, 70)
}

// TestLikelyBuildID decodes MMAP2 records with MiscMmapBuildID of an event without AttrBuildID.
func TestLikelyBuildID(t *testing.T) {
	zeros := make([]byte, 8)
	for _, tt := range []struct {
		name   string
		fields []byte // of struct perf_record_mmap2 from maj on
		want   bool
	}{
		{"20 bytes", append([]byte{20, 0, 0, 0}, "01234567890123456789"...), true},
		{"16 bytes", append([]byte{16, 0, 0, 0}, "0123456789abcdef\x00\x00\x00\x00"...), true},
		{"16 and more", append([]byte{16, 0, 0, 0}, "0123456789abcdefg\x00\x00\x00"...), false},
		{"device 254:1", slices.Concat([]byte{254, 0, 0, 0, 1, 0, 0, 0, 42, 0, 0, 0, 0, 0, 0, 0}, zeros), false},
		{"device 8:1", slices.Concat([]byte{8, 0, 0, 0, 1, 0, 0, 0, 42, 0, 0, 0, 0, 0, 0, 0}, zeros), false},
		{"device 259:1", slices.Concat([]byte{3, 1, 0, 0, 1, 0, 0, 0, 42, 0, 0, 0, 0, 0, 0, 0}, zeros), false},
		{"no device", slices.Concat(zeros, zeros, zeros), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			decode := func(attr Attr) *Mmap2 {
				k := coder{misc: MiscMmapBuildID, attr: &attr}
				k.in.b = slices.Concat(make([]byte, 32), tt.fields, zeros, []byte("/bin/x\x00\x00"))
				r := new(Mmap2)
				r.code(&k)
				return r
			}
			got := decode(Attr{})
			if (got.BuildID != nil) != tt.want || (got.Major != 0 || got.Inode != 0) != (!tt.want && tt.name != "no device") || got.Filename != "/bin/x" {
				t.Errorf("%+v", got)
			}
			if got := decode(Attr{Flags: AttrBuildID}); got.BuildID == nil || got.Inode != 0 {
				t.Errorf("of an event that asked: %+v", got)
			}
		})
	}
}

// TestDisjointGroups leaves out groups that overlap an earlier one, that have one event, or that are of events beyond the last.
func TestDisjointGroups(t *testing.T) {
	groups := GroupDescriptions{{"a", 1, 2}, {"b", 2, 2}, {"c", 3, 1}, {"d", 4, 0}, {"e", 0, 2}, {"f", 4, 1 << 31}, {"g", 1 << 31, 1 << 31}}
	want := GroupDescriptions{{"a", 1, 2}, {"f", 4, 2}}
	if got := groups.Disjoint(6); !slices.Equal(got, want) {
		t.Errorf("groups %v, want %v", got, want)
	}
	if got := groups.Disjoint(2); !slices.Equal(got, GroupDescriptions{{"e", 0, 2}}) {
		t.Errorf("groups of two events: %v", got)
	}
}
