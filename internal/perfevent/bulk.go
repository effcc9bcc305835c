package perfevent

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Unread returns all records that the kernel has written and that Release has not released. If they wrap around the end of the ring, rest has
// the second part. The slices point into the ring.
func (r *Ring) Unread() (first, rest []byte, err error) {
	control := r.control()
	head := atomic.LoadUint64(&control.Data_head)
	tail := atomic.LoadUint64(&control.Data_tail)
	n := head - tail
	size := uint64(len(r.data))
	if n > size {
		return nil, nil, fmt.Errorf("ring buffer at %d: the kernel is ahead by more than the buffer", tail)
	}
	at := tail % size
	if at+n <= size {
		return r.data[at : at+n], nil, nil
	}
	return r.data[at:], r.data[:at+n-size], nil
}

// Release returns the first n bytes of Unread to the kernel, which may then overwrite them.
func (r *Ring) Release(n int) {
	control := r.control()
	atomic.StoreUint64(&control.Data_tail, atomic.LoadUint64(&control.Data_tail)+uint64(n))
}

func (r *Ring) control() *unix.PerfEventMmapPage {
	return (*unix.PerfEventMmapPage)(unsafe.Pointer(&r.memory[0]))
}

// MapOverwritten maps a ring like Map, but the kernel overwrites the oldest records. The event needs the flag AttrWriteBackward (Linux 4.7).
// Newest reads such a ring.
func (e *Event) MapOverwritten(order int) (*Ring, error) {
	page := os.Getpagesize()
	memory, err := unix.Mmap(e.fd, 0, page+page<<order, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return &Ring{memory: memory, data: memory[page:]}, nil
}

// Newest appends the complete records in a ring of MapOverwritten to dst, the newest first. The event's output must be paused.
func (r *Ring) Newest(dst []byte) ([]byte, error) {
	head := atomic.LoadUint64(&r.control().Data_head)
	size := uint64(len(r.data))
	end := uint64(0)
	for {
		if size-end < headerSize {
			break
		}
		var header [headerSize]byte
		r.copy(header[:], head+end)
		n := uint64(binary.NativeEndian.Uint16(header[6:]))
		if n == 0 || end+n > size { // never written, or partly overwritten
			break
		}
		if n < headerSize {
			return dst, errors.New("ring buffer: a record is smaller than its header")
		}
		end += n
	}
	from := len(dst)
	dst = append(dst, make([]byte, end)...)
	r.copy(dst[from:], head)
	return dst, nil
}
