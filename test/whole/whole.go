// Package whole creates files and directories atomically: they appear complete or not at all. It is for files that tests fetch and cache.
package whole

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Make creates the file or directory at path. It calls in with a temporary directory, which it removes at the end. in returns what to move
// to path: the temporary directory itself, or something in it. If another process creates the same directory meanwhile, that one stays.
func Make(path string, in func(dir string) (made string, err error)) error {
	_, err := os.Lstat(path)
	absent := errors.Is(err, fs.ErrNotExist)
	parent := filepath.Dir(path)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(parent, "new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	made, err := in(dir)
	if err != nil {
		return err
	}
	err = os.Rename(made, path)
	if absent && errors.Is(err, fs.ErrExist) { // ENOTEMPTY, too
		return nil
	}
	return err
}
