package perfevent

import (
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/internal/procfs"
)

// OnCPU calls f and returns its error. f runs on a thread that is pinned to the CPU if this process may run there, else wherever
// the caller runs. Each time a thread opens, enables, reads or closes an event of another CPU, the kernel interrupts that CPU and
// waits for it. For many events it is cheaper to migrate there.
func OnCPU(cpu int, f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var there unix.CPUSet
	there.Set(cpu)
	if before, ok := allowed(); ok && unix.SchedSetaffinity(0, &there) == nil {
		defer unix.SchedSetaffinity(0, &before) // cannot fail: it restores a valid mask
	}
	return f()
}

// allowed returns the CPUs that this thread may use, including offline CPUs. sched_getaffinity(2) omits offline CPUs. If OnCPU restored its
// result, the thread would never run on a CPU that comes online later, nor would the threads and processes that it starts.
func allowed() (set unix.CPUSet, ok bool) {
	status, err := procfs.ReadStatus(os.DirFS("/proc"), "thread-self")
	if err != nil {
		return set, false
	}
	ok = parseMask(&set, status.Field("Cpus_allowed"))
	return set, ok
}

// parseMask parses a bitmap of CPUs as /proc prints it: 32-bit words in hexadecimal, the highest first (proc_pid_status(5)).
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
