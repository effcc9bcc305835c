package object

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestReadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	write(t, path, []byte("text"))
	if text, err := (Search{}).ReadFile(path, 4, 12345, os.Geteuid()); err != nil || string(text) != "text" {
		t.Errorf("%q, error %v", text, err)
	}
	for want, err := range map[string]error{
		"belongs to user": errorOf(Search{}.ReadFile(path, 4, os.Geteuid()+1)),
		"has 4 bytes":     errorOf(Search{}.ReadFile(path, 3)),
		"no regular file": errorOf(Search{}.ReadFile(filepath.Dir(path), 4)),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, not %q", err, want)
		}
	}
}

// TestReadFileAs checks that a process keeps its own rights after it used those of others, whether root or another user runs it.
func TestReadFileAs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a") // in a directory that other users cannot search
	write(t, path, []byte("text"))
	for range 3 {
		if text, err := (Search{}).ReadFileAs([]int{os.Geteuid(), 0}, path, 4); err != nil || string(text) != "text" {
			t.Errorf("%q, error %v", text, err)
		}
		if text, err := (Search{}).ReadFileAs([]int{os.Geteuid(), nobody}, path, 4); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%q, error %v", text, err)
		}
	}
}

func errorOf(_ []byte, err error) error { return err }

// TestReplaced has a file, another file at its path, and another generation of its inode, if the file system reports generations.
func TestReplaced(t *testing.T) {
	dir := t.TempDir()
	path, next := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	write(t, path, []byte("old"))
	major, minor, inode, _, err := Identity(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	generation, err := unix.IoctlGetUint32(int(f.Fd()), fsIocGetVersion)
	shown := err == nil
	of := func(generation uint64) bool { return (Search{}).Replaced(path, major, minor, inode, generation) }
	if of(0) || of(uint64(generation)) || (Search{}).Replaced(path, major, minor, 0, 0) {
		t.Error("a file is itself no more")
	}
	if got := of(uint64(generation) + 1); got != shown {
		t.Errorf("another generation: %v, want %v", got, shown)
	}
	write(t, next, []byte("new"))
	if err := os.Rename(next, path); err != nil {
		t.Fatal(err)
	}
	if !of(uint64(generation)) || !of(0) {
		t.Error("another file is not noticed")
	}
	if (Search{}).Replaced(path, major, minor+1, inode, 0) || (Search{}).Replaced(next, major, minor, inode, 0) {
		t.Error("a file on an unknown device, or none, is another one")
	}
}
