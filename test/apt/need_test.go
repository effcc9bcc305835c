package apt_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/bperf/bperf/test/apt"
	"github.com/bperf/bperf/test/require"
)

// TestNeedTakesTurns installs things several times at once, with an apt-get that fails if it runs twice at a time.
func TestNeedTakesTurns(t *testing.T) {
	require.Root(t)
	const fake = `#!/bin/sh
/bin/mkdir "$DIR/running" || exit 1
for last; do :; done
case $last in update) ;; *) echo "$last" >>"$DIR/installed"; : >"$DIR/$last" ;; esac
/bin/sleep 0.01
/bin/rmdir "$DIR/running"
`
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "apt-get"), []byte(fake), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("DIR", dir)
	t.Setenv("PATH", dir)
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			pkg := []string{"one", "two", "three"}[i%3]
			if err := apt.Need(map[string]string{filepath.Join(dir, pkg): pkg}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	installed, err := os.ReadFile(filepath.Join(dir, "installed"))
	if names := strings.Fields(string(installed)); err != nil || len(names) != 3 {
		t.Errorf("installed %q, %v: want each of the three once", names, err)
	}
}
