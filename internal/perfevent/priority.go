package perfevent

import "golang.org/x/sys/unix"

// RunFirst pins the calling thread to a CPU and gives it real-time priority (SCHED_FIFO, see sched(7)). When the thread wakes up, it runs at
// once, before every thread without real-time priority. If a system call or an interrupt on that CPU wakes it, that work continues
// afterwards.
//
// RunFirst is for a thread that does very little work each time. The caller must lock its goroutine to the thread until both end. Threads and
// processes that the thread starts have normal priority. Without permission RunFirst changes nothing: it needs CAP_SYS_NICE or
// RLIMIT_RTPRIO, and the CPU must be in the cpuset.
func RunFirst(cpu int) {
	var there unix.CPUSet
	there.Set(cpu)
	if SetRealtime(1) == nil {
		unix.SchedSetaffinity(0, &there)
	}
}

// SetRealtime gives the calling thread a real-time priority of 1 to 99 (SCHED_FIFO). The caller must lock its goroutine to the thread until both
// end. Threads and processes that the thread starts have normal priority.
func SetRealtime(priority int) error {
	attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Flags: unix.SCHED_FLAG_RESET_ON_FORK, Priority: uint32(priority)}
	return unix.SchedSetAttr(0, &attr, 0)
}
