package whole

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestMake(t *testing.T) {
	parent := filepath.Join(t.TempDir(), "cache")
	fails := errors.New("no network")
	write := func(dir string, result error) (string, error) {
		return dir, errors.Join(os.WriteFile(filepath.Join(dir, "file"), []byte("content"), 0o644), result)
	}
	if err := Make(filepath.Join(parent, "a"), func(dir string) (string, error) { return write(dir, fails) }); !errors.Is(err, fails) {
		t.Errorf("%v, want %v", err, fails)
	}
	if err := Make(filepath.Join(parent, "b"), func(dir string) (string, error) { return write(dir, nil) }); err != nil {
		t.Error(err)
	}
	if err := Make(filepath.Join(parent, "c"), func(dir string) (string, error) {
		_, err := write(dir, nil)
		return filepath.Join(dir, "file"), err
	}); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"b/file", "c"} {
		if b, err := os.ReadFile(filepath.Join(parent, name)); string(b) != "content" {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	left, err := os.ReadDir(parent)
	if err != nil || len(left) != 2 {
		t.Errorf("%v (%v), want b and c", left, err)
	}
}

func TestMakeTwice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	fill := func(content string) func(dir string) (string, error) {
		return func(dir string) (string, error) {
			return dir, os.WriteFile(filepath.Join(dir, "file"), []byte(content), 0o644)
		}
	}
	err := Make(path, func(dir string) (string, error) { // another process is faster
		if err := Make(path, fill("first")); err != nil {
			return "", err
		}
		return fill("second")(dir)
	})
	if b, _ := os.ReadFile(filepath.Join(path, "file")); err != nil || string(b) != "first" {
		t.Errorf("%q, %v; want the first", b, err)
	}
	if err := Make(path, fill("third")); err == nil {
		t.Error("a directory that was there from the start was taken for the one to make")
	}
}
