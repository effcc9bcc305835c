package perfevent

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// OnCPU calls f on a thread that runs on this CPU, if this process may run there, and returns its error. Opening,
// enabling, reading and closing an event of another CPU interrupts that CPU and waits for it, each
// time; where there are many events, it is cheaper to go there.
func OnCPU(cpu int, f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, there unix.CPUSet
	there.Set(cpu)
	if unix.SchedGetaffinity(0, &before) == nil && unix.SchedSetaffinity(0, &there) == nil {
		defer unix.SchedSetaffinity(0, &before) // cannot fail: it was so before
	}
	return f()
}
