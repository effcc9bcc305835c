package perfevent

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// LimitError says that an event needs a file descriptor beyond the limit of the process. It wraps EMFILE.
type LimitError struct {
	Limit uint64 // that is in force
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("all %d files that this process may have open are in use: %v", e.Limit, unix.EMFILE)
}

func (e *LimitError) Unwrap() error { return unix.EMFILE }

// raiseFileLimit makes room for 1024 more file descriptors: up to the hard limit, and beyond it with CAP_SYS_RESOURCE (at most fs.nr_open). It
// returns the limit that is in force afterwards.
//
// It makes the system call itself. After syscall.Setrlimit, Go would hand the raised limit down to
// commands that are started later, and programs that use select(2) cannot live with that.
func raiseFileLimit() uint64 {
	var now unix.Rlimit
	if prlimit(nil, &now) != nil {
		return 0
	}
	const more = 1024
	for _, raised := range []uint64{now.Cur + more, now.Max} {
		if prlimit(&unix.Rlimit{Cur: raised, Max: max(raised, now.Max)}, nil) == nil {
			return raised
		}
	}
	return now.Cur
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
