package kernel

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// membarrierGlobal is MEMBARRIER_CMD_GLOBAL of include/uapi/linux/membarrier.h (Linux 4.3).
const membarrierGlobal = 1

// WaitForBPF waits for a grace period of RCU, in which all BPF programs that run now end, except sleepable programs. On machines with CPUs
// without a timer tick (nohz_full), the kernel refuses this; then WaitForBPF does nothing.
func WaitForBPF() error {
	_, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, membarrierGlobal, 0, 0)
	if errno != 0 && errno != unix.EINVAL && errno != unix.ENOSYS {
		return fmt.Errorf("wait for BPF programs to end: membarrier: %w", errno)
	}
	return nil
}
