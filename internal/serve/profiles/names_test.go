package profiles

import (
	"testing"

	"github.com/bperf/bperf/internal/serve/container"
	"github.com/bperf/bperf/test/require"
)

// TestNames looks up cgroups, some of which belong to nothing, in three windows.
func TestNames(t *testing.T) {
	require.NoKernel(t)
	web := container.Name{Path: "/docker/web", ID: "4f2a"}
	var asked []uint64
	n := newNames(func(cgroup uint64) (container.Name, bool) {
		asked = append(asked, cgroup)
		return web, cgroup == 1 || cgroup == 2
	})
	for window := range 2 {
		for range 3 {
			for cgroup, want := range []string{0: "", 1: web.Path, 2: web.Path, 3: ""} {
				if got := n.path(uint64(cgroup)); got != want {
					t.Errorf("cgroup %d: %q, want %q", cgroup, got, want)
				}
			}
		}
		if len(asked) != 4*(window+1) {
			t.Errorf("window %d: %v were looked up, each should be once", window, asked)
		}
		n.turn()
	}
	if got := n.of(web.Path); got != web {
		t.Errorf("in the window after: %+v", got)
	}
	n.turn()
	if got := n.of(web.Path); got != (container.Name{}) || len(n.found) != 0 {
		t.Errorf("two windows after: %+v, %v", got, n.found)
	}
}
