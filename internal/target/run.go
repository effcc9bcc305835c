package target

import (
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// RunCommand starts a command at once, in a process that the calling thread forks. The command inherits that thread's counters with
// perfdata.AttrInherit; with perfdata.AttrEnableOnExec they start with the command. RunCommand is cheaper than StartCommand, because it
// does not start this program a second time, but counters cannot be attached to the command's ID before it starts. Exec is not needed.
//
// The error of a command that cannot be executed is an *ExecError.
func RunCommand(argv []string) (*Command, error) {
	c := &Command{name: argv[0], socket: -1, start: time.Now()}
	err := search(argv, func(path string, argv []string) (err error) {
		if _, err := os.Stat(path); err != nil { // saves a fork for each directory of PATH
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

// withOwnFileLimit calls f with the hard limit of files that this process was started with, even if that was raised since. The processes
// that f starts get that limit. It makes raw system calls as perfevent.Open does, so that Go still restores the soft limit.
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
