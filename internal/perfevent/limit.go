package perfevent

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// LimitError is returned by Open if the process has reached its limit of file descriptors. It wraps EMFILE.
type LimitError struct {
	Limit uint64 // the limit in force
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("all %d files that this process may have open are in use: %v", e.Limit, unix.EMFILE)
}

func (e *LimitError) Unwrap() error { return unix.EMFILE }

// raiseFileLimit raises the limit of file descriptors by 1024: up to the hard limit, and beyond it with CAP_SYS_RESOURCE (at most
// fs.nr_open). It returns the limit that is then in force.
//
// It does not use syscall.Setrlimit, because Go would then pass the raised limit on to commands that it starts. That breaks programs that
// use select(2).
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

// ReserveFiles lets the kernel's table of this process's file descriptors grow by n, as far as the limit allows. Otherwise the kernel
// doubles the table whenever it is full. In a process with several threads, as every Go program is, each such step waits some ms until no
// thread uses the old table (expand_fdtable in Linux's fs/file.c).
func ReserveFiles(n int) {
	const few = 64 // every limit has room for these
	if n <= few {
		return
	}
	fd, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return // opening the events will report the reason
	}
	defer unix.Close(fd)
	var limit unix.Rlimit
	if prlimit(nil, &limit) != nil {
		return
	}
	if last, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, int(min(uint64(fd+n), limit.Cur-1))); err == nil {
		unix.Close(last)
	}
}

// LocksAnything reports whether the size of rings is unlimited: with CAP_IPC_LOCK, kernel.perf_event_mlock_kb and RLIMIT_MEMLOCK do not apply.
func LocksAnything() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&header, &data[0]) == nil && data[0].Effective>>unix.CAP_IPC_LOCK&1 == 1
}
