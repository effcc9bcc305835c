package web

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/bperf/bperf/internal/httpd"
)

// reach says who can reach an address.
type reach int

const (
	everybody reach = iota
	loopback        // processes of this machine
	unixOwner       // processes of the owner of a Unix socket
)

// listener accepts connections to one address.
type listener struct {
	*httpd.Listener
	reach    reach
	readable string // address, for messages
}

// address is a listener's address that leads back to the listener, whatever wraps it.
type address struct {
	net.Addr
	of *listener
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return address{l.Listener.Addr(), l} }

// listen opens an address: HOST:PORT or unix:PATH.
func listen(addr string) (*listener, error) {
	if path, is := strings.CutPrefix(addr, "unix:"); is {
		l, err := listenUnix(path)
		if err != nil {
			return nil, fmt.Errorf("listen on %s: %w", addr, err)
		}
		return &listener{Listener: &httpd.Listener{Listener: l}, reach: unixOwner, readable: addr}, nil
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	who := everybody
	if l.Addr().(*net.TCPAddr).IP.IsLoopback() { // and not what a name was resolved to earlier
		who = loopback
	}
	return &listener{Listener: &httpd.Listener{Listener: l}, reach: who, readable: l.Addr().String()}, nil
}

// listenUnix makes a socket that only its owner may use. It replaces a socket to which nobody listens, which a killed process left.
func listenUnix(path string) (net.Listener, error) {
	if info, err := os.Lstat(path); err == nil {
		if info.Mode()&fs.ModeSocket == 0 {
			return nil, errors.New("there is another file, which is no socket")
		}
		if c, err := net.Dial("unix", path); err == nil {
			c.Close()
			return nil, errors.New("another process listens there")
		} else if !errors.Is(err, syscall.ECONNREFUSED) {
			return nil, err
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	// bind(2) makes the socket with the permissions that the umask leaves, and others could connect until chmod(2).
	old := syscall.Umask(0o177)
	defer syscall.Umask(old)
	return net.Listen("unix", path)
}
