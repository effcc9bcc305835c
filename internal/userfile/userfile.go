// Package userfile reads files that a user wrote, or that somebody else left where users' files are, and opens those that bperf keeps for its
// user.
package userfile

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// File is a file that was opened.
type File struct {
	Data  []byte
	Owner uint32 // the user ID of its owner
	Info  fs.FileInfo
}

// nullDevice is the number of /dev/null, with the major number 1 and the minor number 3 (Documentation/admin-guide/devices.txt).
const nullDevice = 1<<8 | 3

// Read reads a regular file of at most limit bytes, or /dev/null, which is an empty one. Read does not block at named pipes and terminals.
// With an error, the file has what is known of it, without Data.
func Read(path string, limit int64) (File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC|syscall.O_NOCTTY, 0)
	if err != nil {
		return File{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return File{}, err
	}
	status := info.Sys().(*syscall.Stat_t)
	file := File{Owner: status.Uid, Info: info}
	if !info.Mode().IsRegular() && (info.Mode()&fs.ModeCharDevice == 0 || status.Rdev != nullDevice) {
		return file, fmt.Errorf("%s is not a regular file", path)
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return file, err
	}
	if int64(len(data)) > limit {
		return file, fmt.Errorf("%s has more than %d bytes", path, limit)
	}
	file.Data = data
	return file, nil
}

// IsForeign reports whether the file belongs to another user, except root. With sudo -E, files in the home directory do, and that user would
// control what root's commands do.
func (f File) IsForeign() bool { return f.Info != nil && f.Owner != 0 && int(f.Owner) != os.Geteuid() }
