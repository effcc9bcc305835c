package record

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"slices"
	"testing"

	"github.com/bperf/bperf/perfdata"
)

// rawRecord is a record as a ring has it: words of 4 bytes, and a text.
func rawRecord(kind perfdata.RecordType, misc perfdata.Misc, text string, words ...uint32) []byte {
	ne := binary.NativeEndian
	b := ne.AppendUint32(nil, uint32(kind))
	b = ne.AppendUint16(b, uint16(misc))
	b = ne.AppendUint16(b, 0)
	for _, w := range words {
		b = ne.AppendUint32(b, w)
	}
	if text != "" {
		b = append(append(b, text...), 0, 0, 0)
	}
	return b
}

// long is a number of 8 bytes as words.
func long(n uint64) (uint32, uint32) {
	b := binary.NativeEndian.AppendUint64(nil, n)
	return binary.NativeEndian.Uint32(b), binary.NativeEndian.Uint32(b[4:])
}

func TestDecodeTask(t *testing.T) {
	a, b := long(0x7f0000001000)
	c, d := long(0x2000)
	e, f := long(0x3000)
	g, h := long(77)
	mmap := rawRecord(perfdata.RecordMmap2, 0, "/bin/x", 5, 6, a, b, c, d, e, f, 8, 1, g, h, 9, 0, 5, 2)
	mapped := perfdata.Mmap2{PID: 5, TID: 6, Start: 0x7f0000001000, Length: 0x2000, Offset: 0x3000, Major: 8, Minor: 1, Inode: 77, InodeGeneration: 9,
		Protection: 5, Flags: 2, Filename: "/bin/x"}
	data := rawRecord(perfdata.RecordMmap2, perfdata.MiscMmapData, "/bin/x", 5, 6, a, b, c, d, e, f, 8, 1, g, h, 9, 0, 5, 2)
	mappedData := mapped
	mappedData.Data = true
	for _, test := range []struct {
		raw  []byte
		want perfdata.Value
	}{
		{mmap, &mapped},
		{data, &mappedData},
		{rawRecord(perfdata.RecordFork, 0, "", 1, 2, 3, 4, g, h), &perfdata.Fork{PID: 1, ParentPID: 2, TID: 3, ParentTID: 4, TaskTime: 77}},
		{rawRecord(perfdata.RecordExit, 0, "", 1, 2, 3, 4, g, h), &perfdata.Exit{PID: 1, ParentPID: 2, TID: 3, ParentTID: 4, TaskTime: 77}},
		{rawRecord(perfdata.RecordComm, 0, "sh", 1, 2), &perfdata.Comm{PID: 1, TID: 2, Comm: "sh"}},
		{rawRecord(perfdata.RecordComm, perfdata.MiscCommExec, "sh", 1, 2), &perfdata.Comm{PID: 1, TID: 2, Comm: "sh", Exec: true}},
		{mmap[:70], nil},
		{rawRecord(perfdata.RecordFork, 0, "", 1, 2, 3), nil},
		{rawRecord(perfdata.RecordLost, 0, "", 1, 2, 3, 4, 5, 6), nil},
	} {
		if got := decodeTask(test.raw); !reflect.DeepEqual(got, test.want) {
			t.Errorf("% x: %+v, not %+v", test.raw, got, test.want)
		}
	}
}

// TestStrayBuildID has records MMAP2 with the bit of build IDs that another session asked for, among others, in two parts.
func TestStrayBuildID(t *testing.T) {
	record := func(misc perfdata.Misc) []byte {
		b := rawRecord(perfdata.RecordMmap2, perfdata.MiscMmapData|misc, "/b/xy", make([]uint32, 16)...)
		binary.NativeEndian.PutUint16(b[6:], uint16(len(b)))
		return b
	}
	plain, stray := record(0), record(perfdata.MiscMmapBuildID)
	raw, want := slices.Concat(plain, stray, plain, stray), slices.Concat(plain, plain, plain, plain)
	for _, at := range []int{0, 40, 120, len(raw)} {
		tally := newTally(0, func([]byte, int32) {})
		if err := tally.add(raw[:at], raw[at:]); err != nil {
			t.Fatal(err)
		}
		if got := withoutBuildIDBits(tally.stray, raw[:at], raw[at:]); !bytes.Equal(got, want) {
			t.Errorf("cut at %d: % x, not % x", at, got, want)
		}
	}
}

func FuzzDecodeTask(f *testing.F) {
	f.Add(rawRecord(perfdata.RecordMmap2, perfdata.MiscMmapBuildID, "x", make([]uint32, 16)...))
	f.Add(rawRecord(perfdata.RecordComm, 0, "x", 1, 2))
	f.Fuzz(func(_ *testing.T, b []byte) {
		if len(b) >= headerSize {
			decodeTask(b)
		}
	})
}

// FuzzRecords looks at hostile records of a ring, in two parts.
func FuzzRecords(f *testing.F) {
	sample := binary.NativeEndian.AppendUint64(nil, 32<<48|uint64(perfdata.RecordSample))
	sample = append(sample, make([]byte, 24)...)
	f.Add(sample, uint8(16))
	f.Add(append(binary.NativeEndian.AppendUint64(nil, 80<<48|uint64(perfdata.RecordMmap2)), make([]byte, 72)...), uint8(8))
	f.Add([]byte{1, 2, 3}, uint8(0))
	f.Fuzz(func(t *testing.T, b []byte, at uint8) {
		tally := newTally(1<<16|7, func(name []byte, _ int32) {
			if len(name) > len(b) {
				t.Fatalf("a name of %d bytes", len(name))
			}
		})
		n := min(int(at)&^7, len(b))
		if err := tally.add(b[:n], b[n:]); err == nil && tally.samples > uint64(len(b)/8) {
			t.Fatalf("%d samples in %d bytes", tally.samples, len(b))
		}
	})
}
