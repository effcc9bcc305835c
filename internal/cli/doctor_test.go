package cli

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bperf/bperf/internal/kernel"
	"github.com/bperf/bperf/test/require"
)

func TestPrintFindings(t *testing.T) {
	findings := []kernel.Finding{
		{Feature: "a", State: kernel.Works, Detail: "yes"},
		{Feature: "longer", State: kernel.Missing, Detail: "no", Remedy: "Do this."},
	}
	var text, object strings.Builder
	if err := printFindings(&text, findings); err != nil {
		t.Fatal(err)
	}
	want := "works    a       yes\nmissing  longer  no\n                 → Do this.\n"
	if text.String() != want {
		t.Errorf("printed\n%swant\n%s", text.String(), want)
	}
	if err := writeDocument(&object, doctorSchema, findings); err != nil {
		t.Fatal(err)
	}
	var back []kernel.Finding
	if unwrap(t, object.String(), doctorSchema, &back); len(back) != 2 || back[1] != findings[1] {
		t.Errorf("JSON gives back %+v", back)
	}
}

// TestDoctorUnprivileged runs as nobody: each failure needs a remedy.
func TestDoctorUnprivileged(t *testing.T) {
	require.AnyArch(t)
	require.Root(t)
	cmd := bperf("doctor", "--json")
	cmd.Path = forEverybody(t)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	got := run(t, cmd)
	var findings []kernel.Finding
	unwrap(t, got.stdout, doctorSchema, &findings)
	states := make(map[string]kernel.State)
	for _, f := range findings {
		states[f.Feature] = f.State
		if f.State != kernel.Works && f.Remedy == "" && !strings.Contains(f.Feature, "overflow") {
			t.Errorf("%s is %s (%s) and has no remedy", f.Feature, f.State, f.Detail)
		}
	}
	for _, feature := range []string{"counting the system", "counting cgroups", "BPF programs", "capabilities"} {
		if states[feature] != kernel.Missing {
			t.Errorf("%s is %q for nobody", feature, states[feature])
		}
	}
	want := 0
	if states["counting own processes"] == kernel.Missing { // perf_event_paranoid above 2
		want = 1
	}
	if got.status != want {
		t.Errorf("status %d, want %d", got.status, want)
	}
}

// forEverybody copies this program to a directory where every user may execute it.
func forEverybody(t *testing.T) string {
	t.Helper()
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "bperf-test-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "bperf")
	if err := os.WriteFile(file, self, 0o755); err != nil {
		t.Fatal(err)
	}
	return file
}
