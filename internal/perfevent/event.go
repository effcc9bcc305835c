// Package perfevent is the boundary to perf_event_open(2): opening, groups, reading and the ring buffer. It knows nothing of event names or of what is
// done with a reading. The attributes of events are those of package perfdata.
package perfevent

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/perfdata"
)

// AnyCPU and AnyThread are the "whichever" of perf_event_open's cpu and pid.
const (
	AnyCPU    = -1
	AnyThread = -1
)

// Event is an open perf event: one file descriptor.
type Event struct{ fd int }

// Where says what an event is opened on. A counter needs a thread, a CPU or both; with Cgroup a
// CPU too.
type Where struct {
	Thread int    // thread ID, 0 for the caller, AnyThread
	CPU    int    // or AnyCPU
	Cgroup int    // descriptor of a cgroup directory; used when UseCgroup is set, in place of Thread
	Leader *Event // the group to join, or nil

	UseCgroup bool
}

// Gone reports whether an error of Open means that the thread has ended, or that the CPU is offline.
func (at Where) Gone(err error) bool {
	switch err {
	case unix.ESRCH:
		return !at.UseCgroup && at.Thread != AnyThread
	case unix.ENODEV:
		return at.CPU != AnyCPU && procfs.IsOffline(at.CPU)
	}
	return false
}

// Open opens one event. The error is the bare errno, as what it means depends on the event and on the target. The exception is a *LimitError: where
// all file descriptors are in use, Open raises the limit of the process if it may.
//
// Needs CAP_PERFMON (Linux 5.8), or a kernel.perf_event_paranoid that allows it.
//
// This and the other calls that are made for each of thousands of events are raw: they take some µs
// on another CPU, which Go's scheduler would use to hand this thread's work to another thread and back.
func Open(attr *perfdata.Attr, at Where) (*Event, error) {
	e, err := open(attr, at)
	if err != unix.EMFILE {
		return e, err
	}
	limit := raiseFileLimit()
	if e, err = open(attr, at); err == unix.EMFILE {
		err = &LimitError{limit}
	}
	return e, err
}

func open(attr *perfdata.Attr, at Where) (*Event, error) {
	a := *attr
	a.Size = uint32(unsafe.Sizeof(a))
	pid, flags, leader := at.Thread, uintptr(unix.PERF_FLAG_FD_CLOEXEC), -1
	if at.UseCgroup {
		pid, flags = at.Cgroup, flags|unix.PERF_FLAG_PID_CGROUP
	}
	if at.Leader != nil {
		leader = at.Leader.fd
	}
	for {
		fd, _, errno := unix.RawSyscall6(unix.SYS_PERF_EVENT_OPEN, uintptr(unsafe.Pointer(&a)),
			uintptr(pid), uintptr(at.CPU), uintptr(leader), flags, 0)
		runtime.KeepAlive(at.Leader)
		switch errno {
		case 0:
			return &Event{fd: int(fd)}, nil
		case unix.EINTR:
			continue
		default:
			return nil, errno
		}
	}
}

// FD is the descriptor, valid until Close.
func (e *Event) FD() int { return e.fd }

// Close closes the event; it stops counting with its last descriptor.
func (e *Event) Close() error { return unix.Close(e.fd) }

// Enable lets the event count, and with a leader those members of its group that are not disabled themselves.
func (e *Event) Enable() error { return e.ioctl(unix.PERF_EVENT_IOC_ENABLE) }

// Disable is the reverse of Enable. The reading stays.
func (e *Event) Disable() error { return e.ioctl(unix.PERF_EVENT_IOC_DISABLE) }

func (e *Event) ioctl(request uintptr) error {
	if _, _, errno := unix.RawSyscall(unix.SYS_IOCTL, uintptr(e.fd), request, 0); errno != 0 {
		return errno
	}
	return nil
}

// SetFilter sets a tracepoint's filter expression
// (https://docs.kernel.org/trace/events.html#event-filtering).
func (e *Event) SetFilter(expr string) error {
	p, err := unix.BytePtrFromString(expr)
	if err != nil {
		return err
	}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(e.fd), unix.PERF_EVENT_IOC_SET_FILTER, uintptr(unsafe.Pointer(p)))
	if errno != 0 {
		return errno
	}
	return nil
}

// Reading is a counter's value with the times that tell how far it can be trusted.
type Reading struct {
	Value   uint64 // the event's own unit
	Enabled uint64 // ns for which the event was enabled
	Running uint64 // ns of these for which it was on a hardware counter
}

// Add adds another reading's three numbers.
func (r *Reading) Add(o Reading) {
	r.Value += o.Value
	r.Enabled += o.Enabled
	r.Running += o.Running
}

// Sub is the reading's growth since an earlier one.
func (r Reading) Sub(o Reading) Reading {
	return Reading{r.Value - o.Value, r.Enabled - o.Enabled, r.Running - o.Running}
}

// ReadFormatTimes makes Read and ReadGroup return Enabled and Running. Events that are read through
// this package must have it; members and leaders of groups need perfdata.ReadGroup too.
const ReadFormatTimes = perfdata.ReadTotalTimeEnabled | perfdata.ReadTotalTimeRunning

// ErrPinned is returned by Read for an event with AttrPinned that could not stay on a counter.
var ErrPinned = errors.New("the pinned event lost its counter")

// Read reads an event that was opened with ReadFormatTimes.
func (e *Event) Read() (Reading, error) {
	var buf [24]byte
	if err := e.readFull(buf[:]); err != nil {
		return Reading{}, err
	}
	ne := binary.NativeEndian
	return Reading{ne.Uint64(buf[0:]), ne.Uint64(buf[8:]), ne.Uint64(buf[16:])}, nil
}

// ReadGroup reads a group through its leader, opened with ReadFormatTimes and perfdata.ReadGroup, at
// one point in time: dst[0] is the leader's, the others follow in the order of opening. Members
// share the leader's times. It is an error if the group has another number of events than dst: io.ErrUnexpectedEOF if it has
// fewer, like a group whose CPU went offline. Then each of its events is a group by itself, with its last reading.
func (e *Event) ReadGroup(dst []Reading) error {
	var small [8 * (3 + 16)]byte // most groups fit, so that reading them needs no memory
	buf := small[:]
	if need := 8 * (3 + len(dst)); need <= len(small) {
		buf = buf[:need]
	} else {
		buf = make([]byte, need)
	}
	if err := e.readFull(buf); err != nil {
		return err
	}
	ne := binary.NativeEndian
	if n := ne.Uint64(buf); n != uint64(len(dst)) {
		return fmt.Errorf("the group has %d events, not %d", n, len(dst))
	}
	enabled, running := ne.Uint64(buf[8:]), ne.Uint64(buf[16:])
	for i := range dst {
		dst[i] = Reading{ne.Uint64(buf[24+8*i:]), enabled, running}
	}
	return nil
}

func (e *Event) readFull(buf []byte) error {
	for {
		n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(e.fd), uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)))
		switch {
		case errno == unix.EINTR:
			continue
		case errno != 0:
			return errno
		case n == 0:
			return ErrPinned
		case n != uintptr(len(buf)):
			return io.ErrUnexpectedEOF
		}
		return nil
	}
}

// Lost reads how many records of an event found no room in its ring (Linux 6.0). It was opened with ReadFormatLost and nothing else
// to read.
func (e *Event) Lost() (uint64, error) {
	var buf [16]byte // value, lost
	if err := e.readFull(buf[:]); err != nil {
		return 0, err
	}
	return binary.NativeEndian.Uint64(buf[8:]), nil
}
