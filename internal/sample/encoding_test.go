package sample

import (
	"encoding/binary"
	"reflect"
	"slices"
	"testing"
)

// encode encodes like bpf/encode.h.
func encode(b []byte, numbers ...uint64) []byte {
	for _, n := range numbers {
		more := 0
		for limit := uint64(1) << 5; n >= limit && more < 7; limit <<= 8 {
			more++
		}
		if more == 7 {
			b = binary.LittleEndian.AppendUint64(append(b, 7), n)
			continue
		}
		b = append(b, binary.LittleEndian.AppendUint64(nil, n<<3|uint64(more))[:1+more]...)
	}
	return b
}

// zigzag encodes a number with its sign in the lowest bit.
func zigzag(n int64) uint64 { return uint64(n)<<1 ^ uint64(n>>63) }

func TestDecodeNumbers(t *testing.T) {
	numbers := []uint64{0, 1, 31, 32, 8191, 8192, 1<<21 - 1, 1 << 21, 1<<29 - 1, 1 << 29, 1 << 37, 1 << 45, 1<<53 - 1, 1 << 53, ^uint64(0)}
	d := decoder{data: encode(nil, numbers...)}
	for _, want := range numbers {
		if got := d.number(); got != want {
			t.Errorf("%#x, not %#x", got, want)
		}
	}
	if d.err != nil || len(d.data) > 0 {
		t.Errorf("%v, %d bytes are left", d.err, len(d.data))
	}
	for _, n := range []int64{0, -1, 1, -1 << 63, 1<<63 - 1, -0x7e000000} {
		d := decoder{data: encode(nil, zigzag(n))}
		if got := d.signed(); got != n || d.err != nil {
			t.Errorf("%d, not %d: %v", got, n, d.err)
		}
	}
}

// read reads a record of the ring buffer.
func (t *table) read(record []byte) error {
	d := decoder{data: record}
	id, flags := d.header()
	t.readChain(id, flags, &d)
	return d.err
}

func emptyTable() *table {
	return &table{known: make(map[uint32][]uint64), parts: make(map[uint32][]uint64)}
}

// TestReadChains reads chains of parts that are and are not known. A part and a chain can have the same ID.
func TestReadChains(t *testing.T) {
	kernel, mark := int64(-0x7f000000), int64(-128) // PERF_CONTEXT_KERNEL
	all := emptyTable()
	for _, record := range [][]byte{
		encode(nil, 1<<recordShift|isPart, zigzag(0x401000), zigzag(16), zigzag(-32)),
		encode(nil, 2<<recordShift|isPart|inGeneration1, zigzag(0), zigzag(mark), zigzag(kernel-mark), zigzag(8)),
		encode(nil, 1<<recordShift, 2, 1),
		encode(nil, 2<<recordShift, 1),
		encode(nil, 3<<recordShift, 1, 3),
		encode(nil, 4<<recordShift),
	} {
		check(t, all.read(record))
	}
	outer, inner := []uint64{0x401000, 0x401010, 0x400ff0}, []uint64{uint64(kernel), uint64(kernel + 8)}
	if want := map[uint32][]uint64{1: slices.Concat(inner, outer), 2: outer, 4: nil}; !reflect.DeepEqual(all.known, want) {
		t.Errorf("%#x, not %#x", all.known, want)
	}
	if err := all.read([]byte{isPart<<3 | 1}); err != errShort {
		t.Errorf("a record that ends early: %v", err)
	}
}

// first returns the first number of a sum.
func first(user uint32, count, flags uint64) uint64 {
	return uint64(user)<<userShift | count<<countShift | flags
}

// TestDecodeSums decodes sums that encode all fields, and sums that repeat fields of the one before.
func TestDecodeSums(t *testing.T) {
	subject := sampleSubject{Pid: 12, Tid: 13, Priority: -1, WakerComm: [16]int8{'w'}}
	var last drained
	b := encode(nil, first(2, 0, hasSubject|hasValue|hasKernel), 4)
	b, err := binary.Append(b, binary.LittleEndian, &subject)
	if err != nil {
		t.Fatal(err)
	}
	b = encode(b, 1, zigzag(-4096), 400, zigzag(5000))
	b = encode(b, first(2, 3, 0), zigzag(0x1000), zigzag(-1))
	b = encode(b, first(0, 1, hasKernel), 3, zigzag(-16), zigzag(0))
	b = encode(b, first(0, 1, 0), zigzag(-16), zigzag(0))
	b = encode(b, first(1<<32-1, 1, 0), zigzag(0), zigzag(0))
	d := decoder{data: b}
	want := []entry{
		{sampleKey: sampleKey{Ip: ^uint64(4095), Kernel: 1, User: 2, Subject: subject}, sampleSum: sampleSum{Count: 4, Value: 400, First: 5000 << timeShift}},
		{sampleKey: sampleKey{Ip: 0x1000, User: 2, Subject: subject}, sampleSum: sampleSum{Count: 3, Value: 300, First: 4999 << timeShift}},
		{sampleKey: sampleKey{Ip: ^uint64(4095) - 16, Kernel: 3, Subject: subject}, sampleSum: sampleSum{Count: 1, Value: 100, First: 4999 << timeShift}},
		{sampleKey: sampleKey{Ip: 0x1000 - 16, Subject: subject}, sampleSum: sampleSum{Count: 1, Value: 100, First: 4999 << timeShift}},
		{sampleKey: sampleKey{Ip: 0x1000 - 16, User: 1<<32 - 1, Subject: subject}, sampleSum: sampleSum{Count: 1, Value: 100, First: 4999 << timeShift}},
	}
	for _, want := range want {
		if got := last.sum(&d); !reflect.DeepEqual(got, want) || d.err != nil {
			t.Errorf("%+v, not %+v: %v", got, want, d.err)
		}
	}
	if len(d.data) > 0 {
		t.Errorf("%d bytes are left", len(d.data))
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(encode(nil, 7<<recordShift|isPart|inGeneration1, zigzag(-0x7e000000), zigzag(16), zigzag(-32)))
	f.Add(encode(nil, 7<<recordShift, 1, 1))
	f.Add(encode(nil, 7<<recordShift, 1, 2))
	f.Add(encode(nil, first(1, 2, hasKernel), 1, zigzag(-4096), zigzag(-1)))
	f.Add(append(encode(nil, hasSubject|hasValue), make([]byte, 100)...))
	f.Add([]byte{7})
	f.Fuzz(func(t *testing.T, b []byte) {
		all := emptyTable()
		all.parts[1] = []uint64{0x401000}
		all.read(b) // its errors are not of interest
		for _, addresses := range all.known {
			if len(addresses) > len(b) {
				t.Errorf("%d addresses of parts with one address, in %d bytes", len(addresses), len(b))
			}
		}
		var last drained
		for d := (decoder{data: b}); len(d.data) > 0; {
			before := len(d.data)
			if last.sum(&d); len(d.data) >= before {
				t.Fatal("nothing was read")
			}
		}
	})
}
