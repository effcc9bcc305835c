package perfevent

import (
	"encoding/binary"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ID returns the event's ID, which its records contain with perfdata.SampleEventID or perfdata.SampleIdentifier.
func (e *Event) ID() (uint64, error) {
	var id uint64
	_, _, errno := unix.RawSyscall(unix.SYS_IOCTL, uintptr(e.fd), unix.PERF_EVENT_IOC_ID, uintptr(unsafe.Pointer(&id)))
	if errno != 0 {
		return 0, errno
	}
	return id, nil
}

// SetOutput redirects the event's records to the ring of another event. Both events must have the same CPU, or the same thread on any CPU;
// the same clock; and the same flag AttrWriteBackward. Otherwise the error is EINVAL.
func (e *Event) SetOutput(to *Event) error {
	_, _, errno := unix.RawSyscall(unix.SYS_IOCTL, uintptr(e.fd), unix.PERF_EVENT_IOC_SET_OUTPUT, uintptr(to.fd))
	runtime.KeepAlive(to)
	if errno != 0 {
		return errno
	}
	return nil
}

// PauseOutput pauses or resumes the output to the event's ring. While it is paused, the kernel drops records and does not count them
// as lost.
func (e *Event) PauseOutput(pause bool) error {
	var arg uintptr
	if pause {
		arg = 1
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_IOCTL, uintptr(e.fd), unix.PERF_EVENT_IOC_PAUSE_OUTPUT, arg); errno != 0 {
		return errno
	}
	return nil
}

// SetBPF attaches a BPF program of type perf_event, given by its descriptor, to a sampling event. The kernel runs the program for each sample.
// If the program returns 0, the kernel drops the sample and does not count it as lost.
func (e *Event) SetBPF(program int) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(e.fd), unix.PERF_EVENT_IOC_SET_BPF, uintptr(program))
	if errno != 0 {
		return errno
	}
	return nil
}

// ReadWords reads the event in its ReadFormat. dst must have exactly as many words as the format has.
func (e *Event) ReadWords(dst []uint64) error {
	buf := make([]byte, 8*len(dst))
	if err := e.readFull(buf); err != nil {
		return err
	}
	for i := range dst {
		dst[i] = binary.NativeEndian.Uint64(buf[8*i:])
	}
	return nil
}
