package event

import (
	"io"
	"io/fs"
	"os"
	"path"
	"sync"

	"github.com/bperf/bperf/internal/procfs"
)

// Machine knows the events of a machine. What it needs of sysfs and tracefs it reads when it is
// first asked for; software events need nothing. It is not safe for concurrent use.
type Machine struct {
	devices fs.FS        // /sys/bus/event_source/devices, or nil
	tracing func() fs.FS // tracefs, or nil

	pmus map[string]*pmu // by sysfs name, those that were asked for
	core []*pmu          // nil until asked for
}

// NewMachine describes the machine with these roots of /sys/bus/event_source/devices and of tracefs.
// A root that is nil is not available.
func NewMachine(devices, tracing fs.FS) *Machine {
	return newMachine(devices, func() fs.FS { return tracing })
}

// Host describes the machine that bperf runs on.
func Host() *Machine {
	return newMachine(os.DirFS("/sys/bus/event_source/devices"), sync.OnceValue(func() fs.FS { return os.DirFS(procfs.Tracefs()) }))
}

func newMachine(devices fs.FS, tracing func() fs.FS) *Machine {
	return &Machine{devices: devices, tracing: tracing, pmus: map[string]*pmu{}}
}

// maxFile bounds what is read of one file. The kernel gives a page at most.
const maxFile = 1 << 14

// readFile reads a short file of a tree that may be nil. Names may come from the user: one that no
// tree can have does not exist.
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

// readNames lists a directory of a tree that may be nil, in alphabetical order.
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
