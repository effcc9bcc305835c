package perfevent

import (
	"bytes"
	"encoding/binary"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/require"
)

// fakeRing returns a ring in ordinary memory, with unread data between the positions tail and head.
func fakeRing(data []byte, head, tail uint64) *Ring {
	page := &unix.PerfEventMmapPage{Data_head: head, Data_tail: tail} // a []byte might not be aligned for atomic loads on arm64
	return &Ring{memory: unsafe.Slice((*byte)(unsafe.Pointer(page)), unsafe.Sizeof(*page)), data: data}
}

func record(typ uint32, misc uint16, body string) []byte {
	ne := binary.NativeEndian
	b := ne.AppendUint32(nil, typ)
	b = ne.AppendUint16(b, misc)
	b = ne.AppendUint16(b, uint16(8+len(body)))
	return append(b, body...)
}

// put writes records from a position on, and wraps around the end.
func put(data []byte, at uint64, records ...[]byte) (head uint64) {
	for _, b := range bytes.Join(records, nil) {
		data[at%uint64(len(data))] = b
		at++
	}
	return at
}

func TestRing(t *testing.T) {
	for _, tail := range []uint64{0, 40, 60, 1<<40 + 56} { // the last ones wrap around the end
		data := make([]byte, 64)
		head := put(data, tail, record(RecordSample, 2, "12345678"), record(RecordLost, 0, ""), record(7, 1, "abcdefgh12345678"))
		r := fakeRing(data, head, tail)
		for _, want := range []Record{{RecordSample, 2, []byte("12345678")}, {RecordLost, 0, nil}, {7, 1, []byte("abcdefgh12345678")}} {
			got, ok, err := r.Next()
			if err != nil || !ok || got.Type != want.Type || got.Misc != want.Misc || !bytes.Equal(got.Body, want.Body) {
				t.Fatalf("at %d: %+v, %v, %v; want %+v", tail, got, ok, err, want)
			}
		}
		if got, ok, err := r.Next(); ok || err != nil {
			t.Errorf("at %d: %+v, %v behind the last record", tail, got, err)
		}
	}
}

func TestDamagedRing(t *testing.T) {
	tests := []struct {
		name       string
		head, tail uint64
		records    []byte
		want       string
	}{
		{"cut short", 4, 0, record(9, 0, ""), "ring buffer at 0: 4 bytes are no record"},
		{"too small", 16, 0, make([]byte, 8), "ring buffer at 0: a record of type 0 says it has 0 bytes, and 16 are there"},
		{"too large", 16, 0, record(9, 0, "more than are there"), "ring buffer at 0: a record of type 9 says it has 27 bytes, and 16 are there"},
		{"overrun", 65, 0, nil, "ring buffer at 0: the kernel is ahead by more than the buffer"},
		{"backwards", 0, 8, nil, "ring buffer at 8: the kernel is ahead by more than the buffer"},
	}
	for _, tt := range tests {
		data := make([]byte, 64)
		put(data, tt.tail, tt.records)
		_, _, err := fakeRing(data, tt.head, tt.tail).Next()
		if err == nil || err.Error() != tt.want {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
}

func FuzzRing(f *testing.F) {
	f.Add(bytes.Repeat(record(9, 0, "12345678"), 4), uint64(0), uint16(64))
	f.Add(record(9, 0, "1234567"), uint64(57), uint16(15))
	f.Add(make([]byte, 64), uint64(1<<63), uint16(64))
	f.Fuzz(func(t *testing.T, data []byte, tail uint64, ahead uint16) {
		if len(data) == 0 {
			return
		}
		r := fakeRing(data, tail+uint64(ahead), tail)
		for total := 0; ; {
			rec, ok, err := r.Next()
			if err != nil || !ok {
				return
			}
			if total += headerSize + len(rec.Body); total > int(ahead) {
				t.Fatalf("%d bytes of records from %d", total, ahead)
			}
		}
	})
}

func TestSampling(t *testing.T) {
	require.Root(t)
	const period = 50_000 // ns
	attr := software(perfdata.SoftwareCPUClock)
	attr.SamplePeriod, attr.SampleType, attr.WakeupEvents = period, perfdata.SampleIP|perfdata.SampleTID, 1
	e := openSelf(t, attr, nil)
	r, err := e.Map(3)
	check(t, err)
	defer func() { check(t, r.Close()) }()
	samples := 0
	check(t, e.Enable())
	for samples < 20 { // however long it takes until the timer has fired often enough
		rec, ok, err := r.Next()
		check(t, err)
		if !ok {
			continue
		}
		if rec.Type != RecordSample {
			continue
		}
		samples++
		tid := binary.NativeEndian.Uint32(rec.Body[12:])
		if len(rec.Body) != 16 || int(tid) != unix.Gettid() {
			t.Fatalf("sample %x, want an address and the IDs of this thread", rec.Body)
		}
	}
	check(t, e.Disable())
	if got, err := e.Read(); err != nil || got.Value < 20*period*9/10 {
		t.Errorf("%+v (%v) after %d samples, want at least %d ns", got, err, samples, 20*period*9/10)
	}
}
