// Package initramfs writes the cpio archives that Linux unpacks at boot.
package initramfs

import (
	"fmt"
	"io"
	"path"
)

// Modes of files, as in struct stat (inode(7)).
const (
	Directory = 0o040000
	Regular   = 0o100000
)

// Writer writes an archive in the format "newc":
// https://docs.kernel.org/driver-api/early-userspace/buffer-format.html
type Writer struct {
	w     io.Writer
	inode uint32
	dirs  map[string]bool
	err   error // the first error
}

// NewWriter returns a Writer of an empty archive.
func NewWriter(w io.Writer) *Writer {
	return &Writer{w: w, dirs: map[string]bool{".": true, "/": true}}
}

// Dir adds a directory and its parents, unless the archive has them.
func (w *Writer) Dir(name string) {
	name = path.Clean(name)
	if w.dirs[name] {
		return
	}
	w.Dir(path.Dir(name))
	w.dirs[name] = true
	w.entry(name, Directory|0o755, nil)
}

// File adds a regular file and its parent directories.
func (w *Writer) File(name string, perm uint32, data []byte) {
	name = path.Clean(name)
	w.Dir(path.Dir(name))
	w.entry(name, Regular|perm, data)
}

// Close ends the archive and returns the first error of the Writer.
func (w *Writer) Close() error {
	w.inode = 0
	w.entry("TRAILER!!!", 0, nil)
	return w.err
}

func (w *Writer) entry(name string, mode uint32, data []byte) {
	w.inode++
	header := fmt.Sprintf("070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x",
		w.inode, mode, 0, 0, // uid, gid
		1, 0, len(data), // links, modification time, size
		0, 0, 0, 0, // major and minor numbers of its device, and of the device that it is
		len(name)+1, 0) // no checksum: only another format has it
	w.padded([]byte(header + name + "\x00"))
	w.padded(data)
}

// padded writes b, padded to a multiple of four bytes.
func (w *Writer) padded(b []byte) {
	if w.err != nil {
		return
	}
	if _, w.err = w.w.Write(b); w.err != nil {
		return
	}
	_, w.err = w.w.Write(make([]byte, -len(b)&3))
}
