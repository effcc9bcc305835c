package userfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	file, pipe := filepath.Join(dir, "file"), filepath.Join(dir, "pipe")
	if err := os.WriteFile(file, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Read(file, 4)
	if err != nil || string(got.Data) != "text" || int(got.Owner) != os.Geteuid() || got.Info.Name() != "file" || got.IsForeign() {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := Read("/dev/null", 4); err != nil || len(got.Data) != 0 {
		t.Errorf("/dev/null: got %+v, %v", got, err)
	}
	for _, test := range []struct {
		path  string
		limit int64
		want  string
	}{
		{file, 3, "has more than 3 bytes"}, {pipe, 4, "is not a regular file"}, {dir, 4, "is not a regular file"}, {"/dev/zero", 4, "is not a regular file"},
		{filepath.Join(dir, "none"), 4, "no such file"},
	} {
		if _, err := Read(test.path, test.limit); err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), test.path) {
			t.Errorf("%s: got %v, want %q", test.path, err, test.want)
		}
	}
	if other := (File{Owner: uint32(os.Geteuid()) + 1, Info: got.Info}); !other.IsForeign() {
		t.Error("a file of another user is not foreign")
	}
}

// TestReplace replaces a file that is open, in directories that do not exist yet.
func TestReplace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "dir", "file")
	if err := Replace(path, []byte("before")); err != nil {
		t.Fatal(err)
	}
	before, err := OpenOwned(path, os.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	defer before.Close()
	if err := os.WriteFile(path+".new", []byte("of a process that was killed"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Replace(path, []byte("after")); err != nil {
		t.Fatal(err)
	}
	old, err := io.ReadAll(before)
	now, readErr := os.ReadFile(path)
	if err != nil || readErr != nil || string(old) != "before" || string(now) != "after" {
		t.Errorf("the old file has %q (%v), the new one %q (%v)", old, err, now, readErr)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("the directory has %v (%v)", entries, err)
	}
}

// TestReplaceTogether replaces a file while another process does.
func TestReplaceTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	other, err := OpenOwned(path+".new", os.O_WRONLY|os.O_CREATE)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := syscall.Flock(int(other.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if err := Replace(path, []byte("text")); !errors.Is(err, syscall.EAGAIN) {
		t.Errorf("while the other writes: %v", err)
	}
	if err := os.Rename(other.Name(), path); err != nil {
		t.Fatal(err)
	}
	if err := fill(other, []byte("text"), path); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("after its file has the name: %v", err)
	}
}
