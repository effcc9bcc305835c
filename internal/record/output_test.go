package record

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bperf/bperf/internal/session"
)

// TestKeep gives each of many files that are finished at once a name of its own.
func TestKeep(t *testing.T) {
	o := &output{name: filepath.Join(t.TempDir(), "perf.data"), cfg: &Config{Spec: session.Spec{Notify: func(string) {}}}}
	const files = 4
	for i := range files {
		check(t, os.WriteFile(o.name, []byte{byte(i)}, 0o600))
		check(t, o.keep())
	}
	for i, name := range o.kept {
		b, err := os.ReadFile(name)
		check(t, err)
		time, _ := strings.CutPrefix(name, o.name+".")
		if len(time) != len("2026112212000042") || len(b) != 1 || b[0] != byte(i) {
			t.Errorf("file %d is %s and has %v", i, name, b)
		}
	}
	if len(o.kept) != files {
		t.Errorf("%v are kept, want %d", o.kept, files)
	}
}
