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

// Ring is the ring buffer of an event: one page of control data, struct perf_event_mmap_page, and after it a power of two of pages
// to which the kernel writes records. It is not safe for concurrent use.
type Ring struct {
	memory []byte
	data   []byte
	body   []byte // copy of the last record's body, because Next releases the record at once
}

// Record is a record of a ring: the body after struct perf_event_header, and the header's fields except for the size.
type Record struct {
	Type uint32 // enum perf_event_type: RecordSample, …
	Misc uint16
	Body []byte // valid until the next call of Next
}

// The types of records that bperf uses: enum perf_event_type.
const (
	RecordLost     = unix.PERF_RECORD_LOST // id, number of lost records
	RecordSample   = unix.PERF_RECORD_SAMPLE
	RecordKSymbol  = unix.PERF_RECORD_KSYMBOL
	RecordBPFEvent = unix.PERF_RECORD_BPF_EVENT
)

// Map maps a ring of 2^order pages for an event that was opened with a sample period, or that counts nothing. The ring stays valid until
// Ring.Close, even after the event is closed.
//
// The memory counts against kernel.perf_event_mlock_kb and RLIMIT_MEMLOCK. Beyond both limits, the error is EPERM unless the process has
// CAP_IPC_LOCK.
func (e *Event) Map(order int) (*Ring, error) {
	page := os.Getpagesize()
	memory, err := unix.Mmap(e.fd, 0, page+page<<order, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return &Ring{memory: memory, data: memory[page:]}, nil
}

// Close unmaps the ring.
func (r *Ring) Close() error { return unix.Munmap(r.memory) }

// Next returns the oldest record there is and makes room for others; false when there is none.
func (r *Ring) Next() (Record, bool, error) {
	control := r.control()
	// The kernel writes records before data_head, and reads data_tail before it overwrites. Go's atomic loads and
	// stores are at least the acquire and release that struct perf_event_mmap_page demands.
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

// at decodes the record at position tail. Positions only grow: the offset in data is the position modulo the size of data.
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

// copy fills dst with the bytes from a position on, and wraps around the end of the ring.
func (r *Ring) copy(dst []byte, from uint64) {
	at := from % uint64(len(r.data))
	n := copy(dst, r.data[at:])
	copy(dst[n:], r.data)
}
