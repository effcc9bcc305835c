package perfevent

import "golang.org/x/sys/unix"

// RunFirst lets the calling thread run as soon as it is woken, before all that have no real-time priority themselves (SCHED_FIFO, see sched(7)).
// It is for a thread that does next to nothing each time, to which its goroutine is locked until both end. Threads and processes that it starts
// are as others.
//
// Needs CAP_SYS_NICE, or RLIMIT_RTPRIO.
func RunFirst() error {
	attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Flags: unix.SCHED_FLAG_RESET_ON_FORK, Priority: 1}
	return unix.SchedSetAttr(0, &attr, 0)
}
