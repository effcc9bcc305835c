package target

import (
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// RunCommand starts a command at once, in a process that the calling thread forks: counters of that
// thread with perfdata.AttrInherit are inherited by it, and with perfdata.AttrEnableOnExec start with the
// command. It is the cheaper way where counters need not be attached to the command's own ID first,
// as it takes no second start of this program; Exec is not needed.
//
// The error of a command that cannot be executed is an *ExecError.
func RunCommand(argv []string) (*Command, error) {
	c := &Command{name: argv[0], socket: -1, start: time.Now()}
	err := search(argv, func(path string, argv []string) (err error) {
		if _, err := os.Stat(path); err != nil { // spares a fork for each directory of PATH
			return err.(*os.PathError).Err
		}
		withOwnFileLimit(func() {
			c.pid, err = syscall.ForkExec(path, argv, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}})
		})
		return err
	})
	if err != nil {
		return nil, &ExecError{Name: argv[0], Err: err.(syscall.Errno)}
	}
	return c, nil
}

// withOwnFileLimit calls f with the hard limit of files that this process was started with, if it was
// raised since, for what f starts. The system calls are made as in perfevent.Open, so that Go
// still restores the soft limit.
func withOwnFileLimit(f func()) {
	var now unix.Rlimit
	prlimit(nil, &now)
	if now.Max == hardFileLimit {
		f()
		return
	}
	prlimit(&unix.Rlimit{Cur: hardFileLimit, Max: hardFileLimit}, nil)
	defer prlimit(&now, nil)
	f()
}

func prlimit(set, get *unix.Rlimit) {
	unix.RawSyscall6(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE,
		uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(get)), 0, 0)
}
