package record

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/require"
)

// waiting returns the ID of a process that waits until the end of the test.
func waiting(t *testing.T) int {
	t.Helper()
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	check(t, err)
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	_, err = in.Write([]byte("x"))
	check(t, err)
	_, err = out.Read(make([]byte, 1)) // it has executed the program
	check(t, err)
	return cmd.Process.Pid
}

// TestExisting checks which records of a process there are, and where.
func TestExisting(t *testing.T) {
	require.AnyArch(t)
	for _, tt := range []struct {
		name                string
		change              func(*Config)
		tasks, maps, groups bool
	}{
		{"all", func(*Config) {}, true, true, true},
		{"at the end", func(c *Config) { c.Tail = true }, true, true, true},
		{"tasks", func(c *Config) { c.Existing.NoMaps = true }, true, false, true},
		{"cgroups", func(c *Config) { c.Existing.NoTasks = true }, false, false, true},
		{"none", func(c *Config) { c.Existing = Existing{true, true, true} }, false, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pid := int32(waiting(t))
			cfg := config(t, "page-faults")
			cfg.Target.PIDs, cfg.Command, cfg.Cgroups = []int{int(pid)}, []string{"true"}, true
			tt.change(&cfg)
			_, got := run(t, cfg)
			tasks := howMany(got, func(f *perfdata.Fork) bool { return f.PID == pid && f.Time == 0 })
			maps := howMany(got, func(m *perfdata.Mmap2) bool { return m.PID == pid && m.Time == 0 })
			groups := howMany(got, func(g *perfdata.Cgroup) bool { return g.Path == "/" })
			if tasks > 0 != tt.tasks || maps > 0 != tt.maps || groups > 0 != tt.groups {
				t.Errorf("%d records of the process, %d of its mappings, %d of cgroups", tasks, maps, groups)
			}
			begun, kernel := false, false
			for _, v := range got.records {
				switch v := v.(type) {
				case *perfdata.FinishedInit:
					begun = true
				case *perfdata.Mmap:
					kernel = true
				case *perfdata.Fork:
					if v.PID == pid && begun != cfg.Tail {
						t.Errorf("the process is at the end: %v", begun)
					}
				}
			}
			if !begun || !kernel {
				t.Errorf("the kernel's text is recorded: %v", kernel)
			}
		})
	}
}

// TestMmapBuildIDs compares the build IDs in records of mappings, by the kernel and by bperf, with those at the end of the file.
func TestMmapBuildIDs(t *testing.T) {
	cfg := config(t, "page-faults")
	cfg.Target.PIDs, cfg.Command, cfg.MmapBuildID = []int{waiting(t)}, []string{"true"}, true
	compareBuildIDs(t, cfg)
	cfg = config(t, "page-faults")
	cfg.Command, cfg.MmapBuildID = []string{"cat", "/dev/null"}, true
	compareBuildIDs(t, cfg)
}

func compareBuildIDs(t *testing.T, cfg Config) {
	t.Helper()
	old := false
	cfg.Notify = func(text string) { old = old || strings.Contains(text, "no build IDs") }
	_, got := run(t, cfg)
	if old {
		t.Skip("needs Linux 5.12")
	}
	v, err := got.features.Get(perfdata.FeatureBuildID)
	check(t, err)
	for _, id := range v.(perfdata.BuildIDs) {
		if !strings.HasPrefix(id.Filename, "/") {
			continue
		}
		same := howMany(got, func(m *perfdata.Mmap2) bool { return m.Filename == id.Filename && bytes.Equal(m.BuildID, id.BuildID) })
		all := howMany(got, func(m *perfdata.Mmap2) bool { return m.Filename == id.Filename })
		if same != all || all == 0 {
			t.Errorf("%s: %d records of %d have its build ID", id.Filename, same, all)
		}
	}
}
