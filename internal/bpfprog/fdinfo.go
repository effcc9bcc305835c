package bpfprog

import (
	"bytes"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// memlock returns the memory charged for a BPF object, in bytes. Only fdinfo has it
// (https://docs.kernel.org/filesystems/proc.html, 3.8). The buffer is scratch space.
func (d descriptor) memlock(buffer []byte) (bytes uint64, err error) {
	const key = "memlock"
	file := fmt.Sprint("/proc/self/fdinfo/", int(d))
	data, err := readInto(buffer, unix.AT_FDCWD, terminated(file))
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", file, err)
	}
	value, ok := field(data, key)
	if !ok {
		return 0, fmt.Errorf("%s has no number %s", file, key)
	}
	return value, nil
}

// field returns the number of a key in lines of the form key:\tvalue.
func field(data []byte, key string) (uint64, bool) {
	for len(data) > 0 {
		line := data
		if end := bytes.IndexByte(data, '\n'); end >= 0 {
			line, data = data[:end], data[end+1:]
		} else {
			data = nil
		}
		if len(line) > len(key) && line[len(key)] == ':' && string(line[:len(key)]) == key {
			n, err := strconv.ParseUint(string(bytes.TrimSpace(line[len(key)+1:])), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}
