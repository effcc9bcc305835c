// Package perfevent wraps perf_event_open(2): it opens events and groups, reads them, and reads their ring buffers. A group is a leader and its
// members, which the kernel schedules together. A reading is the value of a counter. A ring is the buffer to which the kernel writes an
// event's records. The attributes of an event have the type perfdata.Attr. The package does not know event names.
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

// AnyCPU and AnyThread are the values of perf_event_open's cpu and pid that mean any.
const (
	AnyCPU    = -1
	AnyThread = -1
)

// Event is an open perf event: one file descriptor.
type Event struct{ fd int }

// Where is the target of an event. An event needs a thread, a CPU or both. With a cgroup it needs a CPU.
type Where struct {
	Thread int    // thread ID, 0 for the caller, AnyThread
	CPU    int    // or AnyCPU
	Cgroup int    // descriptor of a cgroup directory; with UseCgroup, it replaces Thread
	Leader *Event // the group to join, or nil

	UseCgroup bool
}

// Gone reports whether err, an error of Open, means that the thread has ended or that the CPU is offline.
func (at Where) Gone(err error) bool {
	switch err {
	case unix.ESRCH:
		return !at.UseCgroup && at.Thread != AnyThread
	case unix.ENODEV:
		return at.CPU != AnyCPU && procfs.IsOffline(at.CPU)
	}
	return false
}

// Open opens one event. The error is the bare errno, because its meaning depends on the event and on the target, or a *LimitError. If all file
// descriptors are in use, Open tries to raise the limit of the process first.
//
// Open needs CAP_PERFMON (Linux 5.8), or a kernel.perf_event_paranoid that allows the event.
//
// Open, and the other calls that bperf makes for each of thousands of events, are raw system calls. They take some µs on another
// CPU. During a normal system call of that length, Go's scheduler would hand this thread's work to another thread and back.
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

// FD returns the event's file descriptor, which is valid until Close.
func (e *Event) FD() int { return e.fd }

// Close closes the event's file descriptor. The event stops counting when its last descriptor is closed.
func (e *Event) Close() error { return unix.Close(e.fd) }

// Enable starts counting. On a leader, it also starts the members of the group that are not disabled themselves.
func (e *Event) Enable() error { return e.ioctl(unix.PERF_EVENT_IOC_ENABLE) }

// Disable stops what Enable starts. The reading keeps its value.
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

// Reading is a counter's value with its enabled and running times. If Running is less than Enabled, the event was multiplexed.
type Reading struct {
	Value   uint64 // in the event's own unit
	Enabled uint64 // ns that the event was enabled
	Running uint64 // ns that it was also on a hardware counter
}

// Add adds the three numbers of o to r.
func (r *Reading) Add(o Reading) {
	r.Value += o.Value
	r.Enabled += o.Enabled
	r.Running += o.Running
}

// Sub returns the growth from an earlier reading o to r.
func (r Reading) Sub(o Reading) Reading {
	return Reading{r.Value - o.Value, r.Enabled - o.Enabled, r.Running - o.Running}
}

// ReadFormatTimes is the read format that Read and ReadGroup require. Leaders and members of groups also need perfdata.ReadGroup.
const ReadFormatTimes = perfdata.ReadTotalTimeEnabled | perfdata.ReadTotalTimeRunning

// ErrPinned is the error of reading an event with perfdata.AttrPinned that could not stay on a counter.
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

// ReadGroup reads all events of a group at one point in time. e is the leader, opened with ReadFormatTimes and perfdata.ReadGroup. dst[0] is
// the leader's reading; the members follow in the order of opening. All readings have the leader's times.
//
// It is an error if the number of events is not len(dst). If the group has fewer events, the error is io.ErrUnexpectedEOF. This happens when
// its CPU goes offline: then each event is a group by itself and keeps its last reading.
func (e *Event) ReadGroup(dst []Reading) error {
	var small [8 * (3 + 16)]byte // large enough for most groups, to avoid an allocation
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

// Lost returns the number of records that the kernel dropped because the event's ring was full (Linux 6.0). The event's read format must be
// perfdata.ReadLost alone.
func (e *Event) Lost() (uint64, error) {
	var buf [16]byte // value, lost
	if err := e.readFull(buf[:]); err != nil {
		return 0, err
	}
	return binary.NativeEndian.Uint64(buf[8:]), nil
}
