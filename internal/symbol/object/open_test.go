package object

import (
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

func errorOf(_ []byte, err error) error { return err }
