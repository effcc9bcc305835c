package target

import (
	"encoding/binary"
	"errors"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// childName is argv[0] of a process that waits to become the command, and what ps shows until then. The next arguments are the number of
// its control socket, the hard limit of file descriptors, and the command's own argv.
const childName = "(bperf waits to run a command)"

func isChild() bool { return len(os.Args) > 3 && os.Args[0] == childName }

// A process that StartCommand started waits here for Exec and then becomes the command; it never reaches main. Counters are attached to its
// first thread, so that thread must execute the command. Init functions run on the first thread (see runtime.LockOSThread).
func init() {
	if isChild() {
		os.Exit(runChild(os.Args[1], os.Args[2], os.Args[3:]))
	}
}

// waits is the byte that the child writes to its socket before it waits.
const waits = 'w'

// runChild waits on the socket for the parent, and then executes the command. It returns only if that failed, or if the parent has died.
func runChild(socket, hardLimit string, argv []string) int {
	fd, err := strconv.Atoi(socket)
	if err != nil {
		return 127
	}
	syscall.CloseOnExec(fd)
	runtime.LockOSThread() // from now on, the runtime starts threads from another thread
	if _, err := syscall.Write(fd, []byte{waits}); err != nil {
		return 127
	}
	var start [1]byte
	if n, err := readFull(fd, start[:]); n != 1 || err != nil {
		return 127
	}
	if err := restoreFileLimit(hardLimit); err != nil {
		return report(fd, err)
	}
	if err := reportUsage(fd); err != nil {
		return 127
	}
	return report(fd, execvp(argv, os.Environ()))
}

// restoreFileLimit restores the hard limit that the parent was started with. The runtime restores the soft limit if it had raised it;
// otherwise both limits were equal.
func restoreFileLimit(hard string) error {
	was, err := strconv.ParseUint(hard, 10, 64)
	if err != nil {
		return err
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	if limit.Max == was {
		return nil
	}
	return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: was, Max: was})
}

// reportUsage sends the parent the CPU time used so far, which is not the command's.
func reportUsage(fd int) error {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return err
	}
	message := binary.NativeEndian.AppendUint64(nil, uint64(usage.Utime.Nano()))
	message = binary.NativeEndian.AppendUint64(message, uint64(usage.Stime.Nano()))
	_, err := syscall.Write(fd, message)
	return err
}

// report sends the parent the reason why the command could not be executed.
func report(fd int, err error) int {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		errno = syscall.EINVAL
	}
	syscall.Write(fd, binary.NativeEndian.AppendUint64(nil, uint64(errno))) // nobody reads it if the parent has died
	return 127
}

func execvp(argv, env []string) error {
	return search(argv, func(path string, argv []string) error { return syscall.Exec(path, argv, env) })
}

// search executes a command as execvp(3) does. It looks a name without a slash up in PATH. It skips a file that may not be executed if a
// later directory has another one, and runs a file without a format that the kernel knows with /bin/sh. It returns nil if execute
// succeeded, and otherwise an error.
func search(argv []string, execute func(path string, argv []string) error) error {
	try := func(path string) error {
		err := execute(path, argv)
		if err == syscall.ENOEXEC {
			return execute("/bin/sh", append([]string{"/bin/sh", path}, argv[1:]...))
		}
		return err
	}
	if strings.Contains(argv[0], "/") {
		return try(argv[0])
	}
	if argv[0] == "" {
		return syscall.ENOENT
	}
	dirs, ok := os.LookupEnv("PATH")
	if !ok {
		dirs = "/bin:/usr/bin"
	}
	result := error(syscall.ENOENT)
	for dir := range strings.SplitSeq(dirs, ":") {
		if dir == "" {
			dir = "."
		}
		switch err := try(dir + "/" + argv[0]); err {
		case syscall.EACCES:
			result = err
		case syscall.ENOENT, syscall.ENOTDIR:
		default:
			return err
		}
	}
	return result
}

// readFull reads until the buffer is full or the other end is closed.
func readFull(fd int, buf []byte) (n int, err error) {
	for n < len(buf) {
		got, err := syscall.Read(fd, buf[n:])
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return n, err
		case got == 0:
			return n, nil
		default:
			n += got
		}
	}
	return n, nil
}
