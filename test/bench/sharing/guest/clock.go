package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// clock measures the CPU time of the whole machine exactly, in instructions. Under -icount each instruction is a nanosecond, and the counter
// of any CPU counts the instructions of all CPUs.
type clock struct{ file *os.File }

// openClock opens a clock. It occupies one of CPU 0's counters until it is closed.
func openClock() (clock, error) {
	fd, err := unix.PerfEventOpen(&unix.PerfEventAttr{
		Type:   unix.PERF_TYPE_HARDWARE,
		Config: unix.PERF_COUNT_HW_INSTRUCTIONS,
		Size:   unix.PERF_ATTR_SIZE_VER0,
		Bits:   unix.PerfBitPinned, // never multiplexed
	}, -1, 0, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return clock{}, fmt.Errorf("count instructions on CPU 0: %w", err)
	}
	return clock{os.NewFile(uintptr(fd), "instructions of CPU 0")}, nil
}

func (c clock) read() (time.Duration, error) {
	var count uint64
	err := binary.Read(c.file, binary.NativeEndian, &count)
	return time.Duration(count), err
}

func (c clock) close() error { return c.file.Close() }
