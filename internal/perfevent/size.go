package perfevent

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/perfdata"
)

// KernelAttrSize returns the size in bytes of struct perf_event_attr in the running kernel: 128 in Linux 6.1, 136 in 6.12, 144 in 7.2.
// The kernel returns its size if it gets a structure that is too short (E2BIG, see perf_event_open(2)).
func KernelAttrSize() (int, error) {
	attr := perfdata.Attr{Size: 1}
	_, _, errno := unix.RawSyscall6(unix.SYS_PERF_EVENT_OPEN, uintptr(unsafe.Pointer(&attr)), 0, ^uintptr(0), ^uintptr(0), 0, 0)
	if !errors.Is(errno, unix.E2BIG) {
		return 0, fmt.Errorf("ask the kernel for the size of struct perf_event_attr: %w", errno)
	}
	return int(attr.Size), nil
}
