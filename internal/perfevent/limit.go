package perfevent

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// RaiseFileLimit makes room for n more file descriptors, of which each event is one, when all that
// are allowed are in use: up to the hard limit, and beyond it with CAP_SYS_RESOURCE (at most
// fs.nr_open). It returns the limit that is in force afterwards, and whether that is enough.
//
// It makes the system call itself. After syscall.Setrlimit, Go would hand the raised limit down to
// commands that are started later, and programs that use select(2) cannot live with that.
func RaiseFileLimit(n int) (limit uint64, enough bool) {
	var now unix.Rlimit
	if prlimit(nil, &now) != nil {
		return 0, false
	}
	need := now.Cur + uint64(n)
	if prlimit(&unix.Rlimit{Cur: need, Max: max(need, now.Max)}, nil) == nil {
		return need, true
	}
	if prlimit(&unix.Rlimit{Cur: now.Max, Max: now.Max}, nil) != nil {
		return now.Cur, false
	}
	return now.Max, false
}

func prlimit(set, get *unix.Rlimit) error {
	_, _, errno := unix.RawSyscall6(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE,
		uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(get)), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// ReserveFiles makes room for n more file descriptors in the kernel's table of them, as far as the limit
// allows. By itself the table doubles whenever it is full and, in a process of several threads as all Go
// programs are, waits some ms each time until no other thread uses the old one (expand_fdtable in Linux's fs/file.c).
func ReserveFiles(n int) {
	fd, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return // whoever opens the events will learn why
	}
	defer unix.Close(fd)
	if last, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, fd+n); err == nil {
		unix.Close(last)
	}
}

// LocksAnything reports whether rings may be as large as one likes: with CAP_IPC_LOCK, kernel.perf_event_mlock_kb and RLIMIT_MEMLOCK do not count.
func LocksAnything() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&header, &data[0]) == nil && data[0].Effective>>unix.CAP_IPC_LOCK&1 == 1
}
