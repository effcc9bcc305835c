package event

import (
	"io"
	"io/fs"
	"os"
	"path"
	"sync"

	"github.com/bperf/bperf/internal/event/eventfile"
	"github.com/bperf/bperf/internal/event/vendor"
	"github.com/bperf/bperf/internal/procfs"
)

// Machine describes the events of a machine. It reads sysfs and tracefs on first use; software events
// need neither. It is not safe for concurrent use.
type Machine struct {
	devices fs.FS        // /sys/bus/event_source/devices, or nil
	tracing func() fs.FS // tracefs, or nil

	pmus map[string]*pmu // by sysfs name, those loaded so far
	core []*pmu          // nil until corePMUs loads them
	only string          // the core PMU that events without a PMU count on; empty for all

	cpuid  func(cpu int) string     // as vendor.ForCPU takes it; nil if no CPU is known
	models map[string]*vendor.Table // by what cpuid returns, those decoded so far
	tables map[int]*vendor.Table    // by CPU

	files    *eventfile.Source // the user's event files; nil for none
	filesErr error             // why they cannot be used
	warn     func(string)
}

// OfCPU sets the CPU whose vendor's events the machine has, as vendor.ForCPU takes it. A machine of NewMachine has none before.
func (m *Machine) OfCPU(cpuid string) { m.cpuid = func(int) string { return cpuid } }

// AddEventFiles adds the events and metrics in event files to those of the CPU's vendor. The machine reads the files when it looks for an
// event of the vendor for the first time. It passes warnings about them to warn. source may be nil.
func (m *Machine) AddEventFiles(source *eventfile.Source, warn func(string)) {
	m.files, m.warn = source, warn
}

// NewMachine returns a machine with these roots of /sys/bus/event_source/devices and of tracefs.
// A nil root means that the file system is not available.
func NewMachine(devices, tracing fs.FS) *Machine {
	return newMachine(devices, func() fs.FS { return tracing })
}

// Host returns the machine that bperf runs on.
func Host() *Machine {
	m := newMachine(os.DirFS("/sys/bus/event_source/devices"), sync.OnceValue(func() fs.FS { return os.DirFS(procfs.Tracefs()) }))
	m.cpuid = hostCPU
	return m
}

func newMachine(devices fs.FS, tracing func() fs.FS) *Machine {
	return &Machine{devices: devices, tracing: tracing,
		pmus: map[string]*pmu{}, models: map[string]*vendor.Table{}, tables: map[int]*vendor.Table{}}
}

// maxFile is the maximum number of bytes that readFile reads. The kernel returns at most a page.
const maxFile = 1 << 14

// readFile reads a short file of a tree that may be nil. Names may come from the user, so it reports fs.ErrNotExist for
// an invalid name.
func readFile(fsys fs.FS, name string) (string, error) {
	if fsys == nil || !fs.ValidPath(name) {
		return "", &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	f, err := fsys.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile))
	return string(data), err
}

// readNames returns the names in a directory, in alphabetical order. The tree may be nil.
func readNames(fsys fs.FS, dir string) ([]string, error) {
	if fsys == nil || !fs.ValidPath(dir) {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: fs.ErrNotExist}
	}
	entries, err := fs.ReadDir(fsys, dir)
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, err
}

// exists reports whether the tree has the file.
func exists(fsys fs.FS, name ...string) bool {
	p := path.Join(name...)
	if fsys == nil || !fs.ValidPath(p) {
		return false
	}
	_, err := fs.Stat(fsys, p)
	return err == nil
}
