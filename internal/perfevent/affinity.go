package perfevent

import (
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/internal/procfs"
)

// OnCPU calls f on a thread that runs on this CPU, if this process may run there, and returns its error. Opening,
// enabling, reading and closing an event of another CPU interrupts that CPU and waits for it, each
// time; where there are many events, it is cheaper to go there.
func OnCPU(cpu int, f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var there unix.CPUSet
	there.Set(cpu)
	if before, ok := allowed(); ok && unix.SchedSetaffinity(0, &there) == nil {
		defer unix.SchedSetaffinity(0, &before) // cannot fail: it was so before
	}
	return f()
}

// allowed returns the CPUs that this thread may use, including those that are offline. sched_getaffinity(2) leaves these out: a thread that is set to
// what it returned never runs on a CPU that comes online later, and neither do the threads and processes that it starts.
func allowed() (set unix.CPUSet, ok bool) {
	status, err := procfs.ReadStatus(os.DirFS("/proc"), "thread-self")
	if err != nil {
		return set, false
	}
	ok = parseMask(&set, status.Field("Cpus_allowed"))
	return set, ok
}

// parseMask parses the form of bitmaps in /proc: words of 32 bits in hexadecimal, the highest first (proc_pid_status(5)).
func parseMask(set *unix.CPUSet, mask string) bool {
	words := strings.Split(mask, ",")
	for i, word := range words {
		bits, err := strconv.ParseUint(word, 16, 32)
		if err != nil {
			return false
		}
		for cpu := 32 * (len(words) - 1 - i); bits != 0; cpu, bits = cpu+1, bits>>1 {
			if bits&1 != 0 {
				set.Set(cpu)
			}
		}
	}
	return set.Count() > 0
}
