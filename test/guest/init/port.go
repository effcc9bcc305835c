package main

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// port is a connection to the runner: a virtio serial port, or a serial line in raw mode.
type port struct{ *os.File }

// openPort waits until the driver has created a device, and opens it in blocking mode, so that a write returns when the runner's side has
// taken the bytes. os.OpenFile would make it non-blocking, and bytes in transit when the machine ends would be lost.
func openPort(name string) (*port, error) {
	const pause = 5 * time.Millisecond
	const flags = unix.O_RDWR | unix.O_NOCTTY | unix.O_CLOEXEC
	fd, err := unix.Open(name, flags, 0)
	for waited := time.Duration(0); err == unix.ENOENT && waited < 10*time.Second; waited += pause {
		time.Sleep(pause)
		fd, err = unix.Open(name, flags, 0)
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	p := &port{os.NewFile(uintptr(fd), name)}
	return p, p.raw()
}

func (p *port) raw() error {
	t, err := unix.IoctlGetTermios(int(p.Fd()), unix.TCGETS)
	if err == unix.ENOTTY {
		return nil
	}
	if err != nil {
		return err
	}
	t.Iflag, t.Oflag, t.Lflag = 0, 0, 0
	return unix.IoctlSetTermios(int(p.Fd()), unix.TCSETS, t)
}

// Close closes the port after all written bytes have left the machine.
func (p *port) Close() error {
	const drain = 1 // TCSBRK with a nonzero argument is tcdrain(3)
	if err := unix.IoctlSetInt(int(p.Fd()), unix.TCSBRK, drain); err != nil && err != unix.ENOTTY {
		return err
	}
	return p.File.Close()
}
