package perfevent

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Ring is the buffer in which the kernel leaves an event's records: one page of control data,
// struct perf_event_mmap_page, and behind it a power of two of pages with records, in turns. It is
// not safe for concurrent use.
type Ring struct {
	memory []byte
	data   []byte
	body   []byte // of the last record, as its place in data is given back at once
}

// Record is what follows struct perf_event_header, and the header's own fields but for the size.
type Record struct {
	Type uint32 // enum perf_event_type: RecordSample, …
	Misc uint16
	Body []byte // valid until the next call of Next
}

// Types of records: enum perf_event_type, as far as they are used.
const (
	RecordLost     = unix.PERF_RECORD_LOST // id, number of records that found no room
	RecordSample   = unix.PERF_RECORD_SAMPLE
	RecordKSymbol  = unix.PERF_RECORD_KSYMBOL
	RecordBPFEvent = unix.PERF_RECORD_BPF_EVENT
)

// Map makes a ring of 2^order pages for an event that was opened with a sample period, or counts nothing. It stays
// valid when the event is closed, until Close.
//
// Counts against kernel.perf_event_mlock_kb and RLIMIT_MEMLOCK; beyond both, without CAP_IPC_LOCK,
// the error is EPERM.
func (e *Event) Map(order int) (*Ring, error) {
	page := os.Getpagesize()
	memory, err := unix.Mmap(e.fd, 0, page+page<<order, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return &Ring{memory: memory, data: memory[page:]}, nil
}

// Close takes the ring out of memory.
func (r *Ring) Close() error { return unix.Munmap(r.memory) }

// Next returns the oldest record there is and makes room for others; false when there is none.
func (r *Ring) Next() (Record, bool, error) {
	control := r.control()
	// The kernel writes records and then data_head, and reads data_tail before it overwrites: loading and
	// storing atomically is at least the acquire and release that perf_event_mmap_page asks for.
	head := atomic.LoadUint64(&control.Data_head)
	tail := atomic.LoadUint64(&control.Data_tail)
	if head == tail {
		return Record{}, false, nil
	}
	record, size, err := r.at(tail, head)
	if err != nil {
		return Record{}, false, fmt.Errorf("ring buffer at %d: %w", tail, err)
	}
	atomic.StoreUint64(&control.Data_tail, tail+size)
	return record, true, nil
}

const headerSize = 8 // struct perf_event_header: u32 type, u16 misc, u16 size

// at decodes the record at a position. Positions only grow; what is there repeats with the size of
// the data.
func (r *Ring) at(tail, head uint64) (rec Record, size uint64, err error) {
	available := head - tail
	if available > uint64(len(r.data)) {
		return Record{}, 0, errors.New("the kernel is ahead by more than the buffer")
	}
	if available < headerSize {
		return Record{}, 0, fmt.Errorf("%d bytes are no record", available)
	}
	var header [headerSize]byte
	r.copy(header[:], tail)
	ne := binary.NativeEndian
	rec.Type, rec.Misc = ne.Uint32(header[0:]), ne.Uint16(header[4:])
	size = uint64(ne.Uint16(header[6:]))
	if size < headerSize || size > available {
		return Record{}, 0, fmt.Errorf("a record of type %d says it has %d bytes, and %d are there", rec.Type, size, available)
	}
	r.body = slices.Grow(r.body[:0], int(size-headerSize))[:size-headerSize]
	rec.Body = r.body
	r.copy(rec.Body, tail+headerSize)
	return rec, size, nil
}

// copy copies from a position on, around the end if need be.
func (r *Ring) copy(dst []byte, from uint64) {
	at := from % uint64(len(r.data))
	n := copy(dst, r.data[at:])
	copy(dst[n:], r.data)
}
