package program

import (
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// missing is memory without pages until the test fills them: a reader of a page sleeps until then (userfaultfd(2)).
type missing struct {
	memory []byte
	fd     int
	count  int
}

// Of include/uapi/linux/userfaultfd.h.
const (
	uffdAPI             = 0xaa
	uffdioAPI           = 0xc018aa3f
	uffdioRegister      = 0xc020aa00
	uffdioZeropage      = 0xc020aa04
	uffdRegisterMissing = 1
	uffdMessage         = 32 // bytes
)

func missingPages(t *testing.T, count int) *missing {
	t.Helper()
	size := unix.Getpagesize() * count
	memory, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	check(t, err)
	fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC, 0, 0)
	if errno != 0 {
		t.Skipf("needs userfaultfd: %v", errno)
	}
	m := &missing{memory, int(fd), count}
	t.Cleanup(func() {
		unix.Close(m.fd)
		unix.Munmap(memory)
	})
	m.ioctl(t, uffdioAPI, []uint64{uffdAPI, 0, 0})
	m.ioctl(t, uffdioRegister, []uint64{m.address(0), uint64(size), uffdRegisterMissing, 0})
	return m
}

func (m *missing) ioctl(t *testing.T, request uintptr, argument []uint64) {
	t.Helper()
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(m.fd), request, uintptr(unsafe.Pointer(&argument[0]))); errno != 0 {
		t.Fatalf("ioctl %#x of a userfaultfd: %v", request, errno)
	}
}

func (m *missing) address(page int) uint64 {
	return uint64(uintptr(unsafe.Pointer(&m.memory[page*unix.Getpagesize()])))
}

// waitFor waits until a reader of a page sleeps.
func (m *missing) waitFor(t *testing.T) {
	t.Helper()
	_, err := unix.Read(m.fd, make([]byte, uffdMessage))
	check(t, err)
}

// fill makes a page, and wakes its reader.
func (m *missing) fill(t *testing.T, page int) {
	t.Helper()
	m.ioctl(t, uffdioZeropage, []uint64{m.address(page), uint64(unix.Getpagesize()), 0, 0})
}
