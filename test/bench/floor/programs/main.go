// Programs reads the bpf_prog_info of each loaded BPF program and prints their number: what the kernel and Go's runtime take alone for a
// list of programs.
package main

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

func main() {
	n, err := readAll()
	if err != nil {
		fmt.Fprintln(os.Stderr, "programs:", err)
		os.Exit(1)
	}
	fmt.Println(n)
}

func readAll() (n int, err error) {
	var id uint32
	for {
		next := struct{ start, next, flags uint32 }{start: id}
		if _, err := bpf(unix.BPF_PROG_GET_NEXT_ID, unsafe.Pointer(&next), unsafe.Sizeof(next)); errors.Is(err, unix.ENOENT) {
			return n, nil
		} else if err != nil {
			return n, err
		}
		id = next.next
		by := struct{ id, next, flags uint32 }{id: id}
		fd, err := bpf(unix.BPF_PROG_GET_FD_BY_ID, unsafe.Pointer(&by), unsafe.Sizeof(by))
		if errors.Is(err, unix.ENOENT) { // unloaded since
			continue
		} else if err != nil {
			return n, err
		}
		if err := errors.Join(readInfo(fd), unix.Close(int(fd))); err != nil {
			return n, err
		}
		n++
	}
}

// readInfo reads struct bpf_prog_info, without the arrays that it can point to.
func readInfo(fd uintptr) error {
	var info [256]byte
	get := struct {
		fd, size uint32
		info     *[256]byte // 64 bits: the bench runs on no other machines
	}{uint32(fd), uint32(len(info)), &info}
	_, err := bpf(unix.BPF_OBJ_GET_INFO_BY_FD, unsafe.Pointer(&get), unsafe.Sizeof(get))
	return err
}

// bpf is bpf(2).
func bpf(command int, attr unsafe.Pointer, size uintptr) (uintptr, error) {
	result, _, errno := unix.Syscall(unix.SYS_BPF, uintptr(command), uintptr(attr), size)
	if errno != 0 {
		return 0, errno
	}
	return result, nil
}
