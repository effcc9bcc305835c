package daemon

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	containers "github.com/bperf/bperf/internal/serve/container"
	"github.com/bperf/bperf/test/fleet/pod"
	"github.com/bperf/bperf/test/fleet/server"
)

// running is a pod whose container has a process.
type running struct {
	*pod.Pod
	cmd *exec.Cmd
}

// startPod makes the cgroups of a pod, and starts a process that touches pages in each round of its work.
func startPod(t *testing.T, name string, pages int) *running {
	t.Helper()
	dirs, err := containers.FindDirs()
	if err != nil {
		t.Skipf("needs cgroup v2: %v", err)
	}
	p := &running{Pod: pod.New(name)}
	slice, scope := p.Cgroups(filepath.Join(dirs.Cgroups, "bperftest-kubepods"))
	for _, dir := range []string{slice, scope} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { // the last one first
			server.Await(t, "remove "+dir, func() string {
				if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
					return err.Error()
				}
				return ""
			})
		})
	}
	if p.cmd, err = pod.Start(scope, pages); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.end() })
	return p
}

// end ends the process, and returns how many page faults it had.
func (p *running) end() int64 {
	p.cmd.Process.Kill() // fails after its end
	p.cmd.Wait()         // returns that it was killed
	use := p.cmd.ProcessState.SysUsage().(*syscall.Rusage)
	return use.Minflt + use.Majflt
}
