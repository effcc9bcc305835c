package perfevent

import "golang.org/x/sys/unix"

// RunFirst keeps the calling thread on a CPU and lets it run there as soon as it is woken, before all that have no real-time priority themselves
// (SCHED_FIFO, see sched(7)). What wakes it from that CPU, a system call or an interrupt, then goes on after it. It is for a thread that does next
// to nothing each time, to which its goroutine is locked until both end. Threads and processes that it starts are as others. Where this is not allowed
// nothing is other than before: it takes CAP_SYS_NICE or RLIMIT_RTPRIO, and the CPU in the cpuset.
func RunFirst(cpu int) {
	var there unix.CPUSet
	there.Set(cpu)
	first := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Flags: unix.SCHED_FLAG_RESET_ON_FORK, Priority: 1}
	if unix.SchedSetAttr(0, &first, 0) == nil {
		unix.SchedSetaffinity(0, &there)
	}
}
