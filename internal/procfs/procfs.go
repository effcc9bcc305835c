// Package procfs parses files of /proc and /sys, with one parser per file (https://docs.kernel.org/filesystems/proc.html,
// https://docs.kernel.org/admin-guide/sysfs-rules.html). Its functions take /proc or /sys as a file system, so that tests can pass another
// one.
package procfs

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
)

// Proc returns /proc below a root directory.
func Proc(root fs.FS) fs.FS { return sub(root, "proc") }

// Sys returns /sys below a root directory.
func Sys(root fs.FS) fs.FS { return sub(root, "sys") }

func sub(root fs.FS, name string) fs.FS {
	dir, err := fs.Sub(root, name)
	if err != nil {
		panic(err) // only if name is no valid path
	}
	return dir
}

// read reads a file. Its errors have the whole path: mount is "/proc" or "/sys".
func read(dir fs.FS, mount, name string) (string, error) {
	text, err := fs.ReadFile(dir, name)
	return string(text), withPath(err, mount, name)
}

// withPath puts the whole path into an error of a file system, which knows only paths below the mount. err may be nil.
func withPath(err error, mount, name string) error {
	if failed := (*fs.PathError)(nil); errors.As(err, &failed) {
		return fmt.Errorf("read %s: %w", path.Join(mount, name), failed.Err)
	}
	return err
}
