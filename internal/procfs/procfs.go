// Package procfs reads files of /proc and /sys, each in one place (https://docs.kernel.org/filesystems/proc.html,
// https://docs.kernel.org/admin-guide/sysfs-rules.html). Functions take the file system that is mounted there, so that tests can have another one.
package procfs

import (
	"errors"
	"fmt"
	"io/fs"
)

// Proc returns /proc of a root directory.
func Proc(root fs.FS) fs.FS { return sub(root, "proc") }

// Sys returns /sys of a root directory.
func Sys(root fs.FS) fs.FS { return sub(root, "sys") }

func sub(root fs.FS, name string) fs.FS {
	dir, err := fs.Sub(root, name)
	if err != nil {
		panic(err) // only for names that are no paths
	}
	return dir
}

// read reads a file. Its error has the whole path: mount is "/proc" or "/sys".
func read(dir fs.FS, mount, name string) (string, error) {
	text, err := fs.ReadFile(dir, name)
	if failed := (*fs.PathError)(nil); errors.As(err, &failed) {
		return "", fmt.Errorf("read %s/%s: %w", mount, name, failed.Err)
	}
	return string(text), err
}
