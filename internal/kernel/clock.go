package kernel

import (
	"fmt"

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
