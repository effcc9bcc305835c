package kernel

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// ClockResolution returns the resolution of a clock in ns (clock_getres(2)).
func ClockResolution(id int32) (uint64, error) {
	var t unix.Timespec
	if err := unix.ClockGetres(id, &t); err != nil {
		return 0, fmt.Errorf("ask for the resolution of clock %d: %w", id, err)
	}
	return uint64(t.Nano()), nil
}

// ClockAndWall returns the current time of a clock and the current time since 1970, both in ns.
func ClockAndWall(id int32) (clock, wall uint64, err error) {
	var c, w unix.Timespec
	if err := unix.ClockGettime(id, &c); err != nil {
		return 0, 0, fmt.Errorf("read clock %d: %w", id, err)
	}
	if err := unix.ClockGettime(unix.CLOCK_REALTIME, &w); err != nil {
		return 0, 0, fmt.Errorf("read the time of day: %w", err)
	}
	return uint64(c.Nano()), uint64(w.Nano()), nil
}

// ProcessCPUTime returns the CPU time of all threads of a process, also of those that have ended (clock_getcpuclockid(3)). For a process
// that has been waited for, it returns an error.
func ProcessCPUTime(pid int) (time.Duration, error) {
	const sched = 2 // CPUCLOCK_SCHED of include/linux/posix-timers_types.h; without the bit of threads
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid)<<3|sched, &t); err != nil {
		return 0, fmt.Errorf("read the CPU time of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}
