package perfevent

import (
	"errors"
	"math"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/perfdata"
)

// capUserTime is the bit cap_user_time in the capabilities of struct perf_event_mmap_page.
const capUserTime = 1 << 3

// ErrNoClock means that the kernel does not derive its clock from the CPU's time stamp counter. Many virtual machines have another clock.
var ErrNoClock = errors.New("the kernel's clock is not the CPU's time stamp counter")

// ClockFrequency returns the frequency in Hz of the CPU's time stamp counter: on x86 the TSC, on arm64 the generic timer. The kernel
// measures it or reads it from the CPU, and reports it with each event, to 1e-9, as time_mult and time_shift in struct perf_event_mmap_page
// (Linux 3.12). The error is that of Open, or ErrNoClock.
func ClockFrequency() (float64, error) {
	attr := perfdata.Attr{Type: perfdata.TypeSoftware, Config: perfdata.SoftwareDummy, Flags: perfdata.AttrExcludeKernel | perfdata.AttrExcludeHV}
	e, err := Open(&attr, Where{CPU: AnyCPU})
	if err != nil {
		return 0, err
	}
	defer e.Close()
	memory, err := unix.Mmap(e.fd, 0, os.Getpagesize(), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return 0, err
	}
	defer unix.Munmap(memory)
	return clockFrequency((*unix.PerfEventMmapPage)(unsafe.Pointer(&memory[0])))
}

func clockFrequency(page *unix.PerfEventMmapPage) (float64, error) {
	if page.Capabilities&capUserTime == 0 || page.Time_mult == 0 {
		return 0, ErrNoClock
	}
	const nanoseconds = 1e9
	return nanoseconds * math.Ldexp(1, int(page.Time_shift)) / float64(page.Time_mult), nil
}
