package bpfprog

import (
	"bytes"
	"encoding/binary"
	"iter"
	"unsafe"

	"golang.org/x/sys/unix"
)

// This file has system calls for files of procfs. A list of programs takes thousands of them. They never block, so they bypass Go's scheduler:
// its bookkeeping for system calls that may block took a fifth of the time. They do not copy names.

// openat opens a file in a directory for reading. The name ends with 0.
func openat(dir int, name []byte) (int, error) {
	fd, _, errno := unix.RawSyscall6(unix.SYS_OPENAT, uintptr(dir), uintptr(unsafe.Pointer(&name[0])), unix.O_RDONLY|unix.O_CLOEXEC, 0, 0, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

func closeFile(fd int) { unix.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0) }

// readInto reads a file in a directory into the buffer, with one call. The buffer must be larger than the file; fdinfo is smaller than 4096
// bytes.
func readInto(buffer []byte, dir int, name []byte) ([]byte, error) {
	fd, err := openat(dir, name)
	if err != nil {
		return nil, err
	}
	defer closeFile(fd)
	n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&buffer[0])), uintptr(len(buffer)))
	if errno != 0 {
		return nil, errno
	}
	return buffer[:n], nil
}

// readlinkInto reads a symbolic link in a directory, truncated to the size of the buffer.
func readlinkInto(buffer []byte, dir int, name []byte) ([]byte, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_READLINKAT, uintptr(dir), uintptr(unsafe.Pointer(&name[0])),
		uintptr(unsafe.Pointer(&buffer[0])), uintptr(len(buffer)), 0, 0)
	if errno != 0 {
		return nil, errno
	}
	return buffer[:n], nil
}

// readEntries reads the next entries of a directory. It returns none at the end.
func readEntries(buffer []byte, dir int) ([]byte, error) {
	n, _, errno := unix.RawSyscall(unix.SYS_GETDENTS64, uintptr(dir), uintptr(unsafe.Pointer(&buffer[0])), uintptr(len(buffer)))
	if errno != 0 {
		return nil, errno
	}
	return buffer[:n], nil
}

// entryNames iterates over the names in entries (struct linux_dirent64), each with the 0 at its end. It skips ".", ".." and a truncated entry.
func entryNames(entries []byte) iter.Seq[[]byte] {
	const length, name = 16, 19 // offsets
	return func(yield func([]byte) bool) {
		for len(entries) > name {
			n := int(binary.NativeEndian.Uint16(entries[length:]))
			if n <= name || n > len(entries) {
				return
			}
			entry := entries[name:n]
			entries = entries[n:]
			end := bytes.IndexByte(entry, 0)
			if end < 0 {
				return
			}
			if s := string(entry[:end]); s != "." && s != ".." && !yield(entry[:end+1]) {
				return
			}
		}
	}
}

// terminated returns the name with a 0 at its end.
func terminated(name string) []byte { return append([]byte(name), 0) }
