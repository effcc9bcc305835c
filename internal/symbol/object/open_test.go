package object

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	write(t, path, []byte("text"))
	if text, err := ReadFile("", path, 4, 12345, os.Geteuid()); err != nil || string(text) != "text" {
		t.Errorf("%q, error %v", text, err)
	}
	for want, err := range map[string]error{
		"belongs to user": errorOf(ReadFile("", path, 4, os.Geteuid()+1)),
		"has 4 bytes":     errorOf(ReadFile("", path, 3)),
		"no regular file": errorOf(ReadFile("", filepath.Dir(path), 4)),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, not %q", err, want)
		}
	}
}

// TestReadFileAs has a process that keeps its rights while it uses those of others, whether root or another user runs it.
func TestReadFileAs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a") // in a directory that other users may not search
	write(t, path, []byte("text"))
	for range 3 {
		if text, err := ReadFileAs([]int{os.Geteuid(), 0}, "", path, 4); err != nil || string(text) != "text" {
			t.Errorf("%q, error %v", text, err)
		}
		if text, err := ReadFileAs([]int{os.Geteuid(), nobody}, "", path, 4); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%q, error %v", text, err)
		}
	}
}

func errorOf(_ []byte, err error) error { return err }
