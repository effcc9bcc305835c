package profiles

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/bperf/bperf/internal/serve/container"
	"github.com/bperf/bperf/test/program"
	"github.com/bperf/bperf/test/require"
)

// churn makes containers that come and go: each has a cgroup, an executable file of its own and a process, and a BPF program is loaded for
// it.
type churn struct {
	t    *testing.T
	root *os.File // a cgroup
	file []byte
	dir  string
	made int
}

func newChurn(t *testing.T) *churn {
	all, _ := pods(t, "churn")
	root, err := os.Open(all[0].dir)
	check(t, err)
	t.Cleanup(func() { root.Close() })
	file, err := os.ReadFile(program.Program{Body: program.Sleep, Times: 2}.Write(t))
	check(t, err)
	return &churn{t: t, root: root, file: file, dir: t.TempDir()}
}

// turn makes one container, which ends.
func (c *churn) turn() {
	c.made++
	cgroup, err := os.MkdirTemp(c.root.Name(), "container-")
	check(c.t, err)
	dir, err := os.Open(cgroup)
	check(c.t, err)
	path := filepath.Join(c.dir, filepath.Base(cgroup))
	check(c.t, os.WriteFile(path, c.file, 0o755))
	filter, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "churn", Type: ebpf.SocketFilter, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, int32(c.made)), asm.Return()}})
	check(c.t, err)
	cmd := exec.Command(path)
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	check(c.t, cmd.Run())
	for _, err := range []error{filter.Close(), dir.Close(), os.Remove(path)} {
		check(c.t, err)
	}
	for err := os.Remove(cgroup); err != nil; err = os.Remove(cgroup) {
		runtime.Gosched()
	}
}

// heap returns the bytes of live objects.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what finalizers and caches held
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// least is the number of windows of whose heaps the smallest counts.
const least = 20

// mostKept is the number of bytes for each container that can be left, because what is on its way varies. Without dropping the state of
// processes that ended, twice as much is left.
const mostKept = 768

// TestChurn profiles while containers come and go. What the session keeps must not grow with their number.
func TestChurn(t *testing.T) {
	require.Root(t)
	const warm, windows, each = 120, 120, 20 // caches with a bound are full after warm windows; each is the number of containers in a window
	if !require.Long() {
		t.Skip("takes 50 s: make test-long; package replay tests what is forgotten")
	}
	c := newChurn(t)
	find := func(cgroup uint64) (container.Name, bool) {
		return container.Name{Cgroup: cgroup, Path: "/" + time.Duration(cgroup).String()}, true
	}
	p, err := New(Config{Events: DefaultEvent, Frequency: 99, OffCPU: true, Keep: 1, Container: find})
	check(t, err)
	p.cfg.Every, p.entries = 100*time.Millisecond, 1024 // stacks are kept until their map is half full
	arrived, _ := run(t, p)
	before, after := uint64(math.MaxUint64), uint64(math.MaxUint64)
	var seen int
	for n := range warm + windows {
		switch { // what is on its way in one window may not be there in another one
		case n >= warm+windows-least:
			after = min(after, heap())
		case n >= warm && n < warm+least:
			before = min(before, heap())
		}
		for range each {
			c.turn()
		}
		seen += len(next(t, p, arrived).Parts)
		for len(arrived) > 0 {
			seen += len(next(t, p, arrived).Parts)
		}
	}
	if kept := len(p.Windows()); kept != 1 {
		t.Errorf("%d windows are kept", kept)
	}
	if seen < c.made/2 {
		t.Errorf("of %d containers only %d were seen", c.made, seen)
	}
	grown := (float64(after) - float64(before)) / ((windows - least) * each)
	t.Logf("%d containers, %d parts of windows; %d bytes before, %d after: %.0f for each container", c.made, seen, before, after, grown)
	if grown > mostKept {
		t.Errorf("%.0f bytes are kept of each container that ended", grown)
	}
}
