package perfdata

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/bperf/bperf/test/require"
)

// TestOutside builds a program in a separate module, which cannot import packages below internal/.
func TestOutside(t *testing.T) {
	require.NoKernel(t)
	dir := t.TempDir()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{"testdata/outside/go.mod": "go.mod", "testdata/outside/main.go": "main.go", "../go.sum": "go.sum"} {
		b, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if to == "go.mod" {
			b = fmt.Appendf(b, "\nreplace github.com/bperf/bperf => %s\n", root)
		}
		if err := os.WriteFile(filepath.Join(dir, to), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "build", "-mod=mod", "-o", "outside", ".")
	build.Dir, build.Env = dir, append(os.Environ(), "GOFLAGS=", "GOWORK=off", "GOPROXY=off", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	recording, err := filepath.Abs("testdata/callchain.data")
	if err != nil {
		t.Fatal(err)
	}
	got, err := exec.Command(filepath.Join(dir, "outside"), recording).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, got)
	}
	r, err := Open(recording)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var want []byte
	for record, err := range r.Records() {
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := record.Value.(*Sample); ok {
			want = fmt.Appendf(want, "%s %d %#x\n", record.Event.Name, s.TID, s.IP)
		}
	}
	if len(want) == 0 || !bytes.Equal(got, want) {
		t.Errorf("it printed\n%swant\n%s", got, want)
	}
}
