package upstream

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/require"
)

// doEnv and mapEnv make this binary do something with an attr map, and print the error.
const (
	doEnv  = "BPERF_TEST_DO"
	mapEnv = "BPERF_TEST_ATTR_MAP"
)

func TestMain(m *testing.M) {
	if what := os.Getenv(doEnv); what != "" {
		fmt.Print(do(what, os.Getenv(mapEnv)))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func do(what, path string) error {
	switch what {
	case "start":
		_, err := StartLeader(&cpuClock, nil)
		return err
	case "create":
		_, err := Create(path)
		return err
	}
	a, err := Open(path)
	if err != nil {
		return err
	}
	defer a.Close()
	if err := a.Lock(); err != nil {
		return err
	}
	_, err = a.Leader(&cpuClock)
	return err
}

// cpuClock is an event that counts ns on any machine.
var cpuClock = perfdata.Attr{Type: perfdata.TypeSoftware, Config: perfdata.SoftwareCPUClock}

// bpffs mounts a separate BPF file system for the test.
func bpffs(t *testing.T) string {
	t.Helper()
	require.Root(t)
	dir := t.TempDir()
	if err := unix.Mount("bpf", dir, "bpf", 0, ""); err != nil {
		t.Fatalf("mount bpffs: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// create creates an attr map and locks it.
func create(t *testing.T) *AttrMap {
	t.Helper()
	a, err := Create(filepath.Join(bpffs(t), "attr_map"))
	if err != nil {
		t.Fatal(err)
	}
	return locked(t, a)
}

// locked locks a map for the rest of the test.
func locked(t *testing.T, a *AttrMap) *AttrMap {
	t.Helper()
	t.Cleanup(func() { a.Close() })
	if err := a.Lock(); err != nil {
		t.Fatal(err)
	}
	return a
}

// usable returns the CPUs that this process may run on, at least n of them.
func usable(t *testing.T, n int) []int {
	t.Helper()
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	if set.Count() < n {
		t.Skipf("needs %d CPUs", n)
	}
	var cpus []int
	for cpu := 0; len(cpus) < set.Count(); cpu++ {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus
}

// openOn opens an event on a CPU, enabled.
func openOn(t *testing.T, attr perfdata.Attr, cpu int) *perfevent.Event {
	t.Helper()
	attr.ReadFormat = perfevent.ReadFormatTimes
	e, err := perfevent.Open(&attr, perfevent.Where{Thread: perfevent.AnyThread, CPU: cpu})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// start starts a leader that counts on some CPUs, and ends with the test.
func start(t *testing.T, attr perfdata.Attr, cpus ...int) *Leader {
	t.Helper()
	require.Root(t)
	events := make(map[int]*perfevent.Event)
	for _, cpu := range cpus {
		events[cpu] = openOn(t, attr, cpu)
	}
	l, err := StartLeader(&attr, events)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// find looks for the leader of cpu-clock.
func find(t *testing.T, a *AttrMap) *Leader {
	t.Helper()
	l, err := a.Leader(&cpuClock)
	if err != nil {
		t.Fatal(err)
	}
	if l != nil {
		t.Cleanup(func() { l.Close() })
	}
	return l
}

// reading returns the reading for a CPU in a leader's map.
func reading(t *testing.T, l *Leader, name string, cpu int) perfevent.Reading {
	t.Helper()
	m := l.Prev()
	if name == "diff" {
		m = l.Diff()
	}
	var all []perfevent.Reading
	if err := m.Lookup(uint32(0), &all); err != nil {
		t.Fatal(err)
	}
	return all[cpu]
}

// entries returns the number of entries of a map.
func entries(t *testing.T, a *AttrMap) int {
	t.Helper()
	keys, err := a.keys()
	if err != nil {
		t.Fatal(err)
	}
	return len(keys)
}
