// Package whole makes files and directories that appear complete or not at all: what tests fetch and keep.
package whole

import (
	"os"
	"path/filepath"
)

// Make makes what is to be at a path. In a directory of its own, which is removed in the end, it is made by a function, which returns the path
// of what is to be there: that directory itself, or something in it.
func Make(path string, in func(dir string) (made string, err error)) error {
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
	return os.Rename(made, path)
}
