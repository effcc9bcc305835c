package kernel

import (
	"os"
	"path/filepath"
	"testing"
)

func TestMoveFiles(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	for _, name := range []string{"a/x.ko", "b/c/y.ko", "b/z.ko"} {
		path := filepath.Join(from, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := moveFiles(from, to, []string{"y.ko", "x.ko"}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"x.ko": "a/x.ko", "y.ko": "b/c/y.ko"} {
		if got, err := os.ReadFile(filepath.Join(to, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if err := moveFiles(from, to, []string{"z.ko", "x.ko"}); err == nil {
		t.Error("a missing file is no error")
	}
}
