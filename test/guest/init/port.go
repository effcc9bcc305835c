package main

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// port is a line to the runner: a virtio serial port, or a serial line set to pass bytes on unchanged.
type port struct{ *os.File }

// openPort opens a device as soon as its driver has made it. Writes to it return when the runner's side has taken the
// bytes: os.OpenFile would make it non-blocking, and what is under way when the machine ends would be lost.
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

// Close closes the port when all that was written has left the machine.
func (p *port) Close() error {
	const drain = 1 // tcdrain(3) is TCSBRK with an argument that is not zero
	if err := unix.IoctlSetInt(int(p.Fd()), unix.TCSBRK, drain); err != nil && err != unix.ENOTTY {
		return err
	}
	return p.File.Close()
}
