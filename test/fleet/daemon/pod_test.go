package daemon

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	containers "github.com/bperf/bperf/internal/serve/container"
	"github.com/bperf/bperf/test/fleet/server"
)

// The names of the containers of all tests.
const (
	namespace = "shop"
	container = "app"
)

// pod is a cgroup like that of a container in a pod of Kubernetes, with a process in it.
type pod struct {
	name    string
	uid, id string // of the pod and of its container
	cmd     *exec.Cmd
}

// workVariable is the environment variable that makes the test binary the work of a container: how many pages it touches in a round.
const workVariable = "BPERF_TEST_WORK"

// startPod makes the cgroups of a pod, and starts a process that touches pages in each round of its work.
func startPod(t *testing.T, name string, pages int) *pod {
	t.Helper()
	dirs, err := containers.FindDirs()
	if err != nil {
		t.Skipf("needs cgroup v2: %v", err)
	}
	digits := make([]byte, 48)
	rand.Read(digits)
	hex := fmt.Sprintf("%x", digits)
	p := &pod{name: name, uid: strings.Join([]string{hex[:8], hex[8:12], hex[12:16], hex[16:20], hex[20:32]}, "-"), id: hex[32:]}
	slice := filepath.Join(dirs.Cgroups, "bperftest-kubepods-pod"+strings.ReplaceAll(p.uid, "-", "_")+".slice")
	scope := filepath.Join(slice, "cri-containerd-"+p.id+".scope")
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
	into, err := os.Open(scope)
	if err != nil {
		t.Fatal(err)
	}
	defer into.Close()
	p.cmd = exec.Command("/proc/self/exe")
	p.cmd.Env = append(os.Environ(), fmt.Sprint(workVariable, "=", pages))
	p.cmd.Stderr = os.Stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(into.Fd()), Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.end() })
	return p
}

// end ends the process, and returns how many page faults it had.
func (p *pod) end() int64 {
	p.cmd.Process.Kill() // fails after its end
	p.cmd.Wait()         // returns that it was killed
	use := p.cmd.ProcessState.SysUsage().(*syscall.Rusage)
	return use.Minflt + use.Majflt
}

// runWork works until it is killed: in each round it computes, touches pages that it then gives back, and rests.
func runWork(pages string) error {
	var n int
	if _, err := fmt.Sscan(pages, &n); err != nil {
		return err
	}
	sum := uint64(1)
	for {
		memory, err := syscall.Mmap(-1, 0, n*os.Getpagesize(), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
		if err != nil {
			return err
		}
		for i := range 1_000_000 {
			sum = sum*6364136223846793005 + uint64(i)
		}
		for i := 0; i < len(memory); i += os.Getpagesize() {
			memory[i] = byte(sum)
		}
		if err := syscall.Munmap(memory); err != nil {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
}
