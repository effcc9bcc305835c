package perfevent

import (
	"encoding/binary"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ID is the number by which the event's records name it, where they do (SampleID, SampleIdentifier).
func (e *Event) ID() (uint64, error) {
	var id uint64
	_, _, errno := unix.RawSyscall(unix.SYS_IOCTL, uintptr(e.fd), unix.PERF_EVENT_IOC_ID, uintptr(unsafe.Pointer(&id)))
	if errno != 0 {
		return 0, errno
	}
	return id, nil
}

// SetOutput puts the event's records into the ring of another one, which must be of the same CPU, or of the same thread on any CPU,
// must have the same clock, and the same flag WriteBackward (EINVAL otherwise).
func (e *Event) SetOutput(to *Event) error {
	_, _, errno := unix.RawSyscall(unix.SYS_IOCTL, uintptr(e.fd), unix.PERF_EVENT_IOC_SET_OUTPUT, uintptr(to.fd))
	runtime.KeepAlive(to)
	if errno != 0 {
		return errno
	}
	return nil
}

// PauseOutput keeps the kernel from writing to the event's ring, or lets it again. Records that would come meanwhile are
// dropped, and not counted.
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

// SetBPF lets a BPF program of type perf_event, given by its descriptor, run for each sample; those for which it returns 0 are dropped,
// and not counted. It needs an event that samples.
func (e *Event) SetBPF(program int) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(e.fd), unix.PERF_EVENT_IOC_SET_BPF, uintptr(program))
	if errno != 0 {
		return errno
	}
	return nil
}

// ReadWords reads the event as its ReadFormat has it: as many words as that gives.
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
