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

// Replace writes a file that OpenOwned accepts in place of the one at path, which OpenOwned must accept too. Readers find the whole of
// either. Replace makes missing directories. While another process replaces the file, it fails.
func Replace(path string, data []byte) error {
	if err := MakeOwned(filepath.Dir(path)); err != nil {
		return err
	}
	old, err := OpenOwned(path, os.O_RDONLY)
	if err == nil {
		err = old.Close()
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	f, err := OpenOwned(path+".new", os.O_WRONLY|os.O_CREATE) // always the same name: a process that is killed leaves one file at most
	if err != nil {
		return err
	}
	return errors.Join(fill(f, data, path), f.Close())
}

// fill writes the data to a new file, and renames it to path.
func fill(f *os.File, data []byte, path string) error {
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	mine, err := f.Stat()
	if err != nil {
		return err
	}
	if now, err := os.Lstat(f.Name()); err != nil || !os.SameFile(mine, now) {
		return fmt.Errorf("%s: another process has just replaced the file", path)
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// Castagnoli returns the polynomial of the sums in files that bperf keeps. CPUs have an instruction for it.
func Castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

func isOwn(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
