package process

import (
	"syscall"
	"unsafe"
)

// fork makes a child that sleeps and exits, and returns its process ID when it has: this thread is in vfork(2) as long. The result is
// negative for an error. The child has a copy of the memory, but only this thread, so it makes nothing but system calls.
//
//go:norace
//go:noinline
func fork(sleep *syscall.Timespec) int {
	child, _, err := syscall.RawSyscall6(syscall.SYS_CLONE, syscall.CLONE_VFORK|uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if err != 0 {
		return -int(err)
	}
	if child == 0 {
		syscall.RawSyscall(syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(sleep)), 0, 0)
		for {
			syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
		}
	}
	return int(child)
}
