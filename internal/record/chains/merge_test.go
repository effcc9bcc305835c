package chains

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/userstack"
	"github.com/bperf/bperf/perfdata"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// recorded are the events of a recording: one with samples, and the one that the program writes to.
type recorded struct {
	samples, output perfdata.Event
}

const (
	sampleID = 7
	outputID = 9
)

func newRecorded(attr perfdata.Attr) *recorded {
	attr.SampleType |= perfdata.SampleIdentifier | perfdata.SampleIP | perfdata.SampleTID
	attr.Flags = perfdata.AttrSampleIDAll
	return &recorded{
		samples: perfdata.Event{Name: "cpu-clock", Attr: attr, IDs: []uint64{sampleID}},
		output: perfdata.Event{Name: "chains", IDs: []uint64{outputID}, Attr: perfdata.Attr{Type: perfdata.TypeSoftware, Config: perfdata.SoftwareBPFOutput,
			SampleType: SampleType(attr.SampleType), Flags: perfdata.AttrSampleIDAll}},
	}
}

func (r *recorded) events() []*perfdata.Event { return []*perfdata.Event{&r.samples, &r.output} }

// encode returns a record as the kernel writes it to a ring.
func (r *recorded) encode(t testing.TB, misc perfdata.Misc, v perfdata.Value) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := perfdata.NewPipeWriter(&b, perfdata.Options{Events: r.events()})
	check(t, err)
	check(t, w.Write(misc, v))
	check(t, w.Close())
	stream := b.Bytes()[16:]                       // struct perf_pipe_file_header
	for binary.NativeEndian.Uint32(stream) >= 64 { // attributes and features
		stream = stream[binary.NativeEndian.Uint16(stream[6:]):]
	}
	return slices.Clone(stream[:binary.NativeEndian.Uint16(stream[6:])])
}

// decode returns the records in the encoding of a ring, except those of the reader.
func (r *recorded) decode(t testing.TB, records []byte) (values []perfdata.Value) {
	t.Helper()
	var b bytes.Buffer
	w, err := perfdata.NewPipeWriter(&b, perfdata.Options{Events: r.events()})
	check(t, err)
	check(t, w.Append(records))
	check(t, w.Close())
	reader, err := perfdata.NewPipeReader(&b)
	check(t, err)
	defer reader.Close()
	for rec, err := range reader.Records() {
		check(t, err)
		switch v := rec.Value.(type) {
		case *perfdata.Sample:
			values = append(values, v.Clone())
		case *perfdata.Lost:
			lost := *v
			values = append(values, &lost)
		}
	}
	return values
}

// chain returns the record of a chain.
func (r *recorded) chain(t testing.TB, ip uint64, tid int32, end userstack.End, frames ...uint64) []byte {
	ne := binary.NativeEndian
	raw := ne.AppendUint32(nil, uint32(end))
	for _, f := range frames {
		raw = ne.AppendUint64(raw, f)
	}
	v := &perfdata.Sample{SampleID: perfdata.SampleID{ID: outputID, PID: 1, TID: tid, Time: 5, CPU: 3}, IP: ip, Raw: raw}
	return r.encode(t, perfdata.MiscUser, v)
}

func (r *recorded) merger() *Merger {
	m := NewMerger(r.samples.Attr.SampleType, sampleID)
	m.Event(&r.samples.Attr, r.samples.IDs)
	m.Output(r.output.IDs)
	return m
}

// full returns a sample with all fields of an attribute.
func full(a *perfdata.Attr, ip uint64, tid int32, chain ...uint64) *perfdata.Sample {
	s := &perfdata.Sample{SampleID: perfdata.SampleID{ID: sampleID, PID: 1, TID: tid, Time: 5, CPU: 3, StreamID: 4}, IP: ip, Addr: 11, Period: 12,
		Callchain: chain, Raw: []byte{1, 2, 3, 4}, Weight: 13, DataSource: 14, Transaction: 15, PhysAddr: 16, Cgroup: 17, DataPageSize: 18, CodePageSize: 19}
	s.Read = perfdata.Readings{Format: a.ReadFormat, Enabled: 20, Running: 21, Values: []perfdata.Reading{{Value: 22, ID: sampleID, Lost: 23}}}
	if a.ReadFormat&perfdata.ReadGroup != 0 {
		s.Read.Values = append(s.Read.Values, perfdata.Reading{Value: 24, ID: 8, Lost: 25})
	}
	s.UserRegs = perfdata.Registers{ABI: 2, Mask: a.SampleRegsUser, Values: []uint64{26, 27}}
	return s
}

// TestLayouts puts a chain into samples of all layouts: the other fields stay as they are.
func TestLayouts(t *testing.T) {
	const all = perfdata.SampleTime | perfdata.SampleAddr | perfdata.SampleEventID | perfdata.SampleStreamID | perfdata.SampleCPU | perfdata.SamplePeriod |
		perfdata.SampleRead | perfdata.SampleRaw | perfdata.SampleRegsUser | perfdata.SampleWeight | perfdata.SampleDataSrc | perfdata.SampleTransaction |
		perfdata.SamplePhysAddr | perfdata.SampleCgroup | perfdata.SampleDataPageSize | perfdata.SampleCodePageSize
	types := []perfdata.SampleType{0, all}
	for bit := perfdata.SampleType(1); bit <= all; bit <<= 1 {
		if all&bit != 0 {
			types = append(types, bit, all&^bit)
		}
	}
	const kernel, user = perfdata.ContextKernel, perfdata.ContextUser
	for _, kind := range types {
		for _, format := range []perfdata.ReadFormat{0, perfdata.ReadID | perfdata.ReadLost, perfdata.ReadGroup | perfdata.ReadID,
			perfdata.ReadGroup | perfdata.ReadID | perfdata.ReadLost | perfevent.ReadFormatTimes} {
			r := newRecorded(perfdata.Attr{SampleType: kind | perfdata.SampleCallchain, ReadFormat: format, SampleRegsUser: 3})
			attr := &r.samples.Attr
			for _, tt := range []struct{ has, want []uint64 }{
				{nil, []uint64{user, 40, 41}},
				{[]uint64{kernel, 30, 31}, []uint64{kernel, 30, 31, user, 40, 41}},
				{[]uint64{kernel, 30, user, 50, 51, 52}, []uint64{kernel, 30, user, 40, 41}},
			} {
				m, ring := r.merger(), &Ring{}
				records := slices.Concat(r.chain(t, 30, 2, userstack.Outermost, 40, 41), r.encode(t, perfdata.MiscKernel, full(attr, 30, 2, tt.has...)))
				got := bytes.Clone(m.Merge(ring, records, nil))
				if want := r.encode(t, perfdata.MiscKernel, full(attr, 30, 2, tt.want...)); !bytes.Equal(got, want) {
					t.Errorf("sample type %#x, read format %#x, callchain %x:\n%x\nwant\n%x", kind, format, tt.has, got, want)
				}
				if c := m.Counts(); c.Samples != 1 || c.Missing != 0 || c.Cut[userstack.Outermost] != 1 || len(ring.pending) != 0 {
					t.Errorf("%+v", c)
				}
			}
		}
	}
}

// TestMatch looks for the chain of each sample among those that came before.
func TestMatch(t *testing.T) {
	r := newRecorded(perfdata.Attr{SampleType: perfdata.SampleCallchain | perfdata.SampleTime})
	attr := &r.samples.Attr
	chain := func(ip uint64, tid int32, frames ...uint64) []byte {
		return r.chain(t, ip, tid, userstack.NoRule, frames...)
	}
	sample := func(ip uint64, tid int32) []byte { return r.encode(t, perfdata.MiscUser, full(attr, ip, tid)) }
	lost := &perfdata.Lost{EventID: outputID, Records: 2}
	lost.SampleID = perfdata.SampleID{ID: outputID}
	gap := r.encode(t, 0, lost)
	var overflow []byte
	for range 3 * mostPending {
		overflow = append(overflow, chain(1, 1, 9)...)
	}
	for name, tt := range map[string]struct {
		records [][]byte
		want    [][]uint64 // of each sample
		missing uint64
		pending int
	}{
		"one after the other":          {[][]byte{chain(1, 1, 10), sample(1, 1), chain(2, 1, 20), sample(2, 1)}, [][]uint64{{10}, {20}}, 0, 0},
		"nested":                       {[][]byte{chain(1, 1, 10), chain(2, 1, 20), sample(2, 1), sample(1, 1)}, [][]uint64{{20}, {10}}, 0, 0},
		"nested, inner sample is lost": {[][]byte{chain(1, 1, 10), chain(2, 1, 20), sample(1, 1)}, [][]uint64{{10}}, 0, 0},
		"another thread":               {[][]byte{chain(1, 2, 10), sample(1, 1)}, [][]uint64{{1}}, 1, 1},
		"another instruction":          {[][]byte{chain(2, 1, 10), sample(1, 1)}, [][]uint64{{1}}, 1, 1},
		"after losses":                 {[][]byte{chain(1, 1, 10), gap, sample(1, 1)}, [][]uint64{{1}}, 1, 0},
		"used once":                    {[][]byte{chain(1, 1, 10), sample(1, 1), sample(1, 1)}, [][]uint64{{10}, {1}}, 1, 0},
		"many chains without samples":  {[][]byte{overflow, sample(1, 1)}, [][]uint64{{9}}, 0, mostPending - 1},
	} {
		t.Run(name, func(t *testing.T) {
			for _, apart := range []bool{false, true} { // in one reading of the ring, or one record in each
				m, ring := r.merger(), &Ring{}
				var got []byte
				if apart {
					for _, b := range tt.records {
						got = append(got, m.Merge(ring, b[:8], b[8:])...)
						clear(b) // the kernel writes over it
					}
				} else {
					got = append(got, m.Merge(ring, slices.Concat(tt.records...), nil)...)
				}
				var have [][]uint64
				for _, v := range r.decode(t, got) {
					switch v := v.(type) {
					case *perfdata.Sample:
						if v.ID != sampleID {
							t.Errorf("the record of a chain is left: %+v", v)
						}
						have = append(have, v.Callchain)
					case *perfdata.Lost:
						if v.Records != 2 || v.ID != sampleID || v.EventID != sampleID {
							t.Errorf("lost records: %+v", v)
						}
					}
				}
				for i := range tt.want {
					tt.want[i] = slices.Concat([]uint64{perfdata.ContextUser}, tt.want[i][len(tt.want[i])-1:])
				}
				if !slices.EqualFunc(have, tt.want, slices.Equal) {
					t.Errorf("%x, want %x", have, tt.want)
				}
				c := m.Counts()
				if c.Missing != tt.missing || c.Samples != uint64(len(tt.want)) || len(ring.pending) != tt.pending {
					t.Errorf("%d pending, %+v", len(ring.pending), c)
				}
			}
		})
	}
}

// TestMost cuts chains at the event's number of entries, and at the size of a record.
func TestMost(t *testing.T) {
	frames := make([]uint64, 127)
	for i := range frames {
		frames[i] = uint64(100 + i)
	}
	kernel := []uint64{perfdata.ContextKernel, 30, 31}
	for _, tt := range []struct{ most, raw, want int }{{0, 4, 127}, {5, 4, 3}, {2, 4, 0}, {0, mostRecord - 196, 15}} {
		r := newRecorded(perfdata.Attr{SampleType: perfdata.SampleCallchain | perfdata.SampleRaw, SampleMaxStack: uint16(tt.most)})
		s := full(&r.samples.Attr, 30, 2, kernel...)
		s.Raw = make([]byte, tt.raw)
		records := slices.Concat(r.chain(t, 30, 2, userstack.Outermost, frames...), r.encode(t, perfdata.MiscKernel, s))
		got := r.decode(t, r.merger().Merge(&Ring{}, records, nil))
		want := perfdata.AppendCallchain(nil, kernel[1:], frames[:tt.want])
		if len(got) != 1 || !slices.Equal(got[0].(*perfdata.Sample).Callchain, want) || len(got[0].(*perfdata.Sample).Raw) != tt.raw {
			t.Errorf("at most %d entries, %d bytes of raw data: %v", tt.most, tt.raw, got)
		}
	}
}

// TestCounts describes what is cut.
func TestCounts(t *testing.T) {
	c := Counts{Samples: 200, Missing: 1}
	c.Cut[userstack.Outermost], c.Cut[userstack.NoTable], c.Cut[userstack.TooDeep] = 190, 5, 4
	if got, want := c.String(), "5.0 % of the samples have user callchains that are cut (lost 0.5 %, no unwind table 2.5 %, too deep 2.0 %)"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := (Counts{Samples: 1}).String(); got != "" {
		t.Error(got)
	}
}

// FuzzMerge merges hostile records: whole records come out, no more than went in and their chains.
func FuzzMerge(f *testing.F) {
	for _, format := range []perfdata.ReadFormat{0, perfdata.ReadGroup | perfdata.ReadID} {
		r := newRecorded(perfdata.Attr{SampleType: perfdata.SampleCallchain | perfdata.SampleRead | perfdata.SampleTime, ReadFormat: format})
		f.Add(slices.Concat(r.chain(f, 30, 2, userstack.Outermost, 40, 41), r.encode(f, perfdata.MiscUser, full(&r.samples.Attr, 30, 2, 1, 2))), uint8(8), uint64(format))
	}
	f.Fuzz(func(t *testing.T, b []byte, at uint8, format uint64) {
		r := newRecorded(perfdata.Attr{SampleType: perfdata.SampleCallchain | perfdata.SampleRead | perfdata.SampleTime, ReadFormat: perfdata.ReadFormat(format)})
		n := min(int(at)&^7, len(b))
		m, ring := r.merger(), &Ring{}
		for range 2 {
			out := m.Merge(ring, b[:n], b[n:])
			if len(out) > 2*len(b)+16*len(b)/8 || len(ring.pending) > mostPending {
				t.Fatalf("%d bytes of %d, %d chains are pending", len(out), len(b), len(ring.pending))
			}
		}
	})
}
