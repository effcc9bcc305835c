package target

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Command is a process that has not yet executed the command it is to become, so that counters can
// be opened for it that start with the command itself (perfdata.AttrEnableOnExec).
//
// The command gets the descriptors 0 to 2, those that were inherited by this process, its
// environment, its limit of file descriptors and its mask of signals. Of signals that this process was started
// with as ignored, SIGHUP and SIGINT are ignored in the command too if nothing asked to be notified of them; Go's
// runtime takes over the others before any code here runs, so that the command has them at their default.
type Command struct {
	name   string
	pid    int
	socket int // to the child; -1 after Exec

	start  time.Time      // of the command
	before syscall.Rusage // what the child had used up to then

	mu     sync.Mutex // guards reaped, so that no signal goes to a process that reuses the ID
	reaped bool
	wait   sync.Once
	status Status
}

// Status is how a command ended. User and System are of the command and of those of its children
// that it waited for; they do not contain what the process used before it became the command.
type Status struct {
	Code   int            // exit status, when Signal is 0
	Signal syscall.Signal // that ended it, or 0
	User   time.Duration
	System time.Duration
	Wall   time.Duration // from Exec to the end
}

// ExitCode is the exit status that a shell would show: 128 and the signal for a command that was
// ended by one.
func (s Status) ExitCode() int {
	if s.Signal != 0 {
		return 128 + int(s.Signal)
	}
	return s.Code
}

// hardFileLimit is the hard limit of file descriptors this process was started with.
var hardFileLimit = func() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return limit.Max
}()

// StartCommand starts a process and returns when it waits for Exec. The process is this program again, which gets no further
// than this package's init function. It ends by itself when this process dies before.
//
// Events can be opened for the process from then on, and no earlier. The kernel tells that it has executed this program before it
// starts the events of perfdata.AttrEnableOnExec, so that they would count the start of this program too. And a thread of Go's runtime that
// is started between the opening of an event and PERF_EVENT_IOC_SET_BPF inherits the event without its BPF program; the kernel may swap
// the events of the two threads.
func StartCommand(argv []string) (*Command, error) {
	if len(argv) == 0 {
		return nil, errors.New("no command is given")
	}
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("start %s: make a socket: %w", argv[0], err)
	}
	args := append([]string{childName, strconv.Itoa(ends[1]), strconv.FormatUint(hardFileLimit, 10)}, argv...)
	pid, err := forkInheriting(ends[1], args)
	unix.Close(ends[1])
	if err != nil {
		unix.Close(ends[0])
		return nil, fmt.Errorf("start %s: execute /proc/self/exe: %w", argv[0], err)
	}
	c := &Command{name: argv[0], pid: pid, socket: ends[0]}
	var answer [1]byte
	if _, err := readFull(c.socket, answer[:]); err != nil && err != syscall.ECONNRESET { // Wait returns why a child that has ended did
		return nil, errors.Join(fmt.Errorf("start %s: %w", c.name, err), c.Kill())
	}
	return c, nil
}

// forkInheriting starts this program with one descriptor more than it would inherit. Its number stays
// as it is: the low ones may be in use, by a make that shares its job server for example.
func forkInheriting(fd int, args []string) (pid int, err error) {
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
		return 0, err
	}
	return syscall.ForkExec("/proc/self/exe", args, &syscall.ProcAttr{
		Env:   os.Environ(),
		Files: []uintptr{0, 1, 2},
	})
}

// PID is the process ID of the child and then of the command, and of its only thread up to Exec.
func (c *Command) PID() int { return c.pid }

// Exec lets the child execute the command. It returns when the command is running, or has ended, or
// could not be executed, which is an *ExecError.
func (c *Command) Exec() error {
	defer c.closeSocket()
	c.start = time.Now()
	// A child that is gone already has been killed: Wait tells by what. No SIGPIPE for that.
	if err := unix.Send(c.socket, []byte{1}, unix.MSG_NOSIGNAL); err != nil && err != unix.EPIPE {
		return fmt.Errorf("start %s: %w", c.name, err)
	}
	// The socket closes on exec. What comes before is the usage so far, and then perhaps an errno.
	var answer [24]byte
	n, err := readFull(c.socket, answer[:])
	if err != nil && err != syscall.ECONNRESET {
		return fmt.Errorf("start %s: %w", c.name, err)
	}
	ne := binary.NativeEndian
	switch n {
	case 24:
		return &ExecError{Name: c.name, Err: syscall.Errno(ne.Uint64(answer[16:]))}
	case 16:
		c.before.Utime = syscall.NsecToTimeval(int64(ne.Uint64(answer[0:])))
		c.before.Stime = syscall.NsecToTimeval(int64(ne.Uint64(answer[8:])))
	case 8:
		return &ExecError{Name: c.name, Err: syscall.Errno(ne.Uint64(answer[0:]))}
	}
	return nil
}

func (c *Command) closeSocket() {
	if c.socket >= 0 {
		unix.Close(c.socket)
		c.socket = -1
	}
}

// ExecError is why a command could not be executed. Its text is the one of perf.
type ExecError struct {
	Name string
	Err  syscall.Errno
}

func (e *ExecError) Error() string {
	text := e.Err.Error()
	return "Workload failed: " + strings.ToUpper(text[:1]) + text[1:]
}

func (e *ExecError) Unwrap() error { return e.Err }

// Wait waits for the end of the command. It can be called more than once.
func (c *Command) Wait() Status {
	c.wait.Do(c.reap)
	return c.status
}

func (c *Command) reap() {
	// First wait without reaping, so that the ID stays the command's until the lock is held.
	for unix.Waitid(unix.P_PID, c.pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reaped = true
	var wait syscall.WaitStatus
	var usage syscall.Rusage
	for {
		_, err := syscall.Wait4(c.pid, &wait, 0, &usage)
		if err != syscall.EINTR {
			break
		}
	}
	c.status = Status{
		User:   time.Duration(max(0, usage.Utime.Nano()-c.before.Utime.Nano())),
		System: time.Duration(max(0, usage.Stime.Nano()-c.before.Stime.Nano())),
	}
	if !c.start.IsZero() {
		c.status.Wall = time.Since(c.start)
	}
	if wait.Signaled() {
		c.status.Signal = wait.Signal()
		return
	}
	c.status.Code = wait.ExitStatus()
}

// Exited returns a channel that takes the status of the command when it has ended.
func (c *Command) Exited() <-chan Status {
	exited := make(chan Status, 1)
	go func() { exited <- c.Wait() }()
	return exited
}

// End ends a command that still runs, and waits for its end: it gets a signal, and SIGKILL when the next one of signals comes. That is returned, or nil. A
// command of another user, as that of sudo, may not be sent signals: then it ends when it does.
func (c *Command) End(sig os.Signal, exited <-chan Status, signals <-chan os.Signal) (status Status, next os.Signal) {
	_ = c.signal(sig)
	for {
		select {
		case status = <-exited:
			return status, next
		case next = <-signals:
			_ = c.signal(syscall.SIGKILL)
		}
	}
}

// signal sends the command a signal. One that has ended takes none, which is no error.
func (c *Command) signal(sig os.Signal) error {
	number, ok := sig.(syscall.Signal)
	if !ok {
		return fmt.Errorf("send %v to the command: not a signal of this system", sig)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reaped {
		return nil
	}
	if err := syscall.Kill(c.pid, number); err != nil {
		return fmt.Errorf("send %v to the command (process %d): %w", sig, c.pid, err)
	}
	return nil
}

// Kill ends the command or the child that waits, and waits for its end. It does nothing when it has
// ended.
func (c *Command) Kill() error {
	err := c.signal(syscall.SIGKILL)
	c.closeSocket() // not before: the child ends by itself when its socket is closed
	c.Wait()
	return err
}
