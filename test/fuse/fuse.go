// Package fuse serves a FUSE file system with one file (include/uapi/linux/fuse.h). The file system can stop answering, as a user's file system
// may at any time.
package fuse

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Device is the device through which FUSE servers communicate with the kernel.
const Device = "/dev/fuse"

// Name is the name of the file.
const Name = "program"

// The requests that the server supports: enum fuse_opcode.
const (
	lookup  = 1
	forget  = 2
	getattr = 3
	open    = 14
	read    = 15
	release = 18
	flush   = 25
	initial = 26
	opendir = 27
	readdir = 28
	many    = 42 // FUSE_BATCH_FORGET
)

// Node numbers of the file system.
const (
	root = 1
	file = 2
)

// Serve mounts the file system on dir, with an executable file of the given contents. When it is mounted, Serve writes a line to out. It
// answers requests until it reads a line from in. Then it stops answering, writes another line, and leaves the file system mounted until the
// input ends. Serve needs a separate process, because a file system that does not answer blocks the processes that use it.
func Serve(dir string, contents []byte, in io.Reader, out io.Writer) error {
	device, err := unix.Open(Device, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", Device, err)
	}
	if err := unix.Mount("bperf-test", dir, "fuse", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("fd=%d,rootmode=40755,user_id=0,group_id=0,allow_other", device)); err != nil {
		return fmt.Errorf("mount a file system of FUSE: %w", err)
	}
	s := &server{device: device, contents: contents}
	go s.run()
	line := make([]byte, 1)
	for _, then := range []func(){func() { s.silent.Store(true) }, func() {}} {
		if _, err := out.Write([]byte{'\n'}); err != nil {
			return err
		}
		if _, err := in.Read(line); err != nil {
			break
		}
		then()
	}
	return errors.Join(unix.Unmount(dir, unix.MNT_DETACH), unix.Close(device)) // pending requests end with an error
}

type server struct {
	device   int
	contents []byte
	silent   atomic.Bool
}

// header is struct fuse_in_header.
type header struct {
	Len, Opcode    uint32
	Unique, Node   uint64
	UID, GID, PID  uint32
	TotalExtLen, _ uint16
}

// attr is struct fuse_attr.
type attr struct {
	Ino, Size, Blocks, Atime, Mtime, Ctime                                         uint64
	AtimeNsec, MtimeNsec, CtimeNsec, Mode, Nlink, UID, GID, Rdev, BlockSize, Flags uint32
}

func (s *server) attr(node uint64) attr {
	if node == root {
		return attr{Ino: root, Mode: unix.S_IFDIR | 0o755, Nlink: 2}
	}
	return attr{Ino: file, Size: uint64(len(s.contents)), Mode: unix.S_IFREG | 0o755, Nlink: 1}
}

// run answers requests until the file system is gone.
func (s *server) run() {
	request := make([]byte, 1<<17)
	for {
		n, err := unix.Read(s.device, request)
		if err == unix.EINTR || err == unix.ENOENT || err == unix.EAGAIN {
			continue
		}
		if err != nil {
			return
		}
		var h header
		body := bytes.NewReader(request[:n])
		if binary.Read(body, binary.NativeEndian, &h) != nil || s.silent.Load() {
			continue
		}
		if h.Opcode == forget || h.Opcode == many {
			continue
		}
		answer, status := s.answer(&h, body)
		var out bytes.Buffer
		_ = binary.Write(&out, binary.NativeEndian, struct { // struct fuse_out_header
			Len    uint32
			Error  int32
			Unique uint64
		}{uint32(16 + len(answer)), -int32(status), h.Unique})
		out.Write(answer)
		_, _ = unix.Write(s.device, out.Bytes()) // fails if the requesting process has ended
	}
}

func (s *server) answer(h *header, body io.Reader) ([]byte, unix.Errno) {
	var out bytes.Buffer
	put := func(v any) { _ = binary.Write(&out, binary.NativeEndian, v) }
	switch h.Opcode {
	case initial: // struct fuse_init_out of version 7.23 and later
		put([16]uint32{7, 31, 1 << 16, 0, 0, 1 << 16})
	case lookup:
		name, _ := io.ReadAll(body)
		if string(bytes.TrimRight(name, "\x00")) != Name {
			return nil, unix.ENOENT
		}
		put([5]uint64{file, 0, 0, 0, 0}) // validity 0: the kernel looks up the name at each use
		put(s.attr(file))
	case getattr:
		put([2]uint64{})
		put(s.attr(h.Node))
	case open, opendir:
		const keepCache = 2 // FOPEN_KEEP_CACHE
		put([2]uint64{0, keepCache})
	case read:
		var r struct {
			Handle, Offset uint64
			Size           uint32
		}
		if binary.Read(body, binary.NativeEndian, &r) != nil {
			return nil, unix.EINVAL
		}
		rest := s.contents[min(r.Offset, uint64(len(s.contents))):]
		out.Write(rest[:min(uint64(r.Size), uint64(len(rest)))])
	case readdir, release, flush:
	default:
		return nil, unix.ENOSYS
	}
	return out.Bytes(), 0
}

// Main calls Serve with the directory args[0] and the contents of file args[1], on standard input and output. It returns the exit status.
func Main(args []string) int {
	contents, err := os.ReadFile(args[1])
	if err == nil {
		err = Serve(args[0], contents, os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
