package userfile

import (
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
