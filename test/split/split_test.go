package split

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/bperf/bperf/test/require"
)

func TestMain(m *testing.M) {
	Main()
	os.Exit(m.Run())
}

// TestLoads runs each load and checks that the share that it measures is about three quarters.
func TestLoads(t *testing.T) {
	require.Root(t)
	loads, err := Loads(t.TempDir(), 50*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range loads {
		cmd := exec.CommandContext(t.Context(), l.Command()[0], l.Command()[1:]...)
		cmd.WaitDelay = time.Minute
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", l.Name, err, out)
			continue
		}
		if share, err := l.Share(); err != nil || share < 0.5 || share > 0.9 {
			t.Errorf("%s: three parts are %.3f of all, %v", l.Name, share, err)
		}
	}
}
