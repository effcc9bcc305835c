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

// Command is a process that becomes a command when Exec is called. Before that, counters can be opened for it that start with the command
// itself (perfdata.AttrEnableOnExec).
//
// The command gets the descriptors 0 to 2, the ones that this process inherited, its environment, its limit of file descriptors and its
// signal mask. If this process was started with SIGHUP or SIGINT ignored, the command ignores them too, unless something asked to be
// notified of them. Go's runtime takes over the other signals before any code here runs, so the command has them at their default.
type Command struct {
	name   string
	pid    int
	socket int // to the child; -1 once Exec has closed it

	start  time.Time      // when Exec started the command
	before syscall.Rusage // CPU time that the child used before it became the command

	mu     sync.Mutex // guards reaped, so that no signal reaches another process that reuses the ID
	reaped bool
	wait   sync.Once
	status Status
}

// Status describes how a command ended. User and System are the CPU time of the command and of the children that it waited for. They do not
// include what the process used before it became the command.
type Status struct {
	Code   int            // exit status, when Signal is 0
	Signal syscall.Signal // the signal that ended the command, or 0
	User   time.Duration
	System time.Duration
	Wall   time.Duration // from Exec to the end
}

// ExitCode returns the exit status that a shell would show: 128 plus the signal if a signal ended the command.
func (s Status) ExitCode() int {
	if s.Signal != 0 {
		return 128 + int(s.Signal)
	}
	return s.Code
}

// hardFileLimit is the hard limit of file descriptors that this process was started with.
var hardFileLimit = func() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return limit.Max
}()

// StartCommand starts a process, and returns when the process waits for Exec. The process runs this program again, but only up to this
// package's init function. It exits by itself if this process dies first.
//
// Events can be opened for the process from then on, and no earlier, for two reasons. First, the kernel reports that it has executed this
// program before it starts the events with perfdata.AttrEnableOnExec, so events opened earlier would also count the start of this program.
// Second, a thread that Go's runtime starts between the opening of an event and PERF_EVENT_IOC_SET_BPF inherits the event without its BPF
// program, and the kernel may swap the events of the two threads.
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
	if _, err := readFull(c.socket, answer[:]); err != nil && err != syscall.ECONNRESET { // if the child has ended, Wait returns why
		return nil, errors.Join(fmt.Errorf("start %s: %w", c.name, err), c.Kill())
	}
	return c, nil
}

// forkInheriting starts this program with one more descriptor than it would inherit. It keeps the descriptor's number, because low numbers
// may be in use, for example by a make that shares its job server.
func forkInheriting(fd int, args []string) (pid int, err error) {
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
		return 0, err
	}
	return syscall.ForkExec("/proc/self/exe", args, &syscall.ProcAttr{
		Env:   os.Environ(),
		Files: []uintptr{0, 1, 2},
	})
}

// PID returns the process ID of the child and later of the command, which is also the ID of its first thread.
func (c *Command) PID() int { return c.pid }

// Exec makes the child execute the command. It returns when the command runs or has ended. If the command cannot be executed, the error is
// an *ExecError.
func (c *Command) Exec() error {
	defer c.closeSocket()
	c.start = time.Now()
	// EPIPE means that the child has been killed: Wait returns the signal. MSG_NOSIGNAL avoids a SIGPIPE here.
	if err := unix.Send(c.socket, []byte{1}, unix.MSG_NOSIGNAL); err != nil && err != unix.EPIPE {
		return fmt.Errorf("start %s: %w", c.name, err)
	}
	// The socket closes on exec. Before that, the child sends its CPU time, and an errno if the exec failed.
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

// ExecError is the reason why a command could not be executed. Its text is perf's.
type ExecError struct {
	Name string
	Err  syscall.Errno
}

func (e *ExecError) Error() string {
	text := e.Err.Error()
	return "Workload failed: " + strings.ToUpper(text[:1]) + text[1:]
}

func (e *ExecError) Unwrap() error { return e.Err }

// Wait waits for the end of the command, and returns its status. It can be called more than once.
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

// Exited returns a channel that receives the status of the command when it has ended.
func (c *Command) Exited() <-chan Status {
	exited := make(chan Status, 1)
	go func() { exited <- c.Wait() }()
	return exited
}

// End sends a signal to a command that still runs, and waits for its end. When the next signal arrives on signals, it sends SIGKILL, and
// returns that signal as next; otherwise next is nil. bperf may not be allowed to signal a command of another user, for example of sudo:
// then End waits until the command ends by itself.
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

// signal sends a signal to the command. It does nothing if the command has been reaped.
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

// Kill kills the command or the child that waits, and waits for its end. It does nothing if the process has ended.
func (c *Command) Kill() error {
	err := c.signal(syscall.SIGKILL)
	c.closeSocket() // only now, because the child exits by itself when its socket is closed
	c.Wait()
	return err
}
