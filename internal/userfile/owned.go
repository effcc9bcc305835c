package userfile

import (
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"syscall"
)

// OpenOwned opens a regular file that belongs to this user, and that only this user can change. The flags are those of
// os.OpenFile; a new file gets the mode 0600.
func OpenOwned(path string, flags int) (*os.File, error) {
	f, err := os.OpenFile(path, flags|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || !isOwn(info) || info.Mode().Perm()&0o022 != 0) {
		err = fmt.Errorf("%s: not a regular file that only this user can change", path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// MakeOwned makes a directory unless it exists, below one that belongs to this user: root can have the home of another user.
func MakeOwned(dir string) error {
	above := dir
	for {
		info, err := os.Stat(above)
		if err == nil && !isOwn(info) {
			return fmt.Errorf("%s belongs to another user", above)
		}
		if err == nil {
			return os.MkdirAll(dir, 0o700)
		}
		if !errors.Is(err, os.ErrNotExist) || above == filepath.Dir(above) {
			return err
		}
		above = filepath.Dir(above)
	}
}

// Castagnoli returns the polynomial of the sums in files that bperf keeps. CPUs have an instruction for it.
func Castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

func isOwn(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
