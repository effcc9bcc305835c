package procfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Comm returns the name of a process or thread (proc_pid_comm(5)), such as "self", "12" or "12/task/13". Ended recognizes its error for a
// task that has ended.
func Comm(proc fs.FS, task string) (string, error) {
	name := path.Join(task, "comm")
	f, err := proc.Open(name)
	if err != nil {
		return "", withPath(err, "/proc", name)
	}
	defer f.Close()
	var text [128]byte // TASK_COMM_LEN is 16; names of kernel workers describe their work, in at most 64 bytes
	n, err := f.Read(text[:])
	if err != nil && err != io.EOF {
		return "", withPath(err, "/proc", name)
	}
	return strings.TrimSuffix(string(text[:n]), "\n"), nil
}

// Processes returns the IDs of all processes, in ascending order.
func Processes(proc fs.FS) ([]int, error) { return numbers(proc, ".") }

// Threads returns the IDs of the threads of a process, in ascending order.
func Threads(proc fs.FS, pid int) ([]int, error) { return numbers(proc, fmt.Sprintf("%d/task", pid)) }

// numbers returns the entries of a directory that are numbers, in ascending order.
func numbers(proc fs.FS, dir string) ([]int, error) {
	entries, err := fs.ReadDir(proc, dir)
	if err != nil {
		return nil, withPath(err, "/proc", dir)
	}
	all := make([]int, 0, len(entries))
	for _, e := range entries {
		if n, err := strconv.ParseUint(e.Name(), 10, 31); err == nil {
			all = append(all, int(n))
		}
	}
	slices.Sort(all)
	return all, nil
}

// Ended reports whether an error from /proc means that the task has ended: ENOENT from opening its file, ESRCH from reading it.
func Ended(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH)
}
