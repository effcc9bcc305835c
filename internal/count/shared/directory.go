package shared

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"

	"github.com/bperf/bperf/internal/kernel"
)

// Dir is the default directory through which the sessions of a machine find each other.
const Dir = "/sys/fs/bpf/bperf"

// directory is the directory in bpffs through which sessions find each other. A session that changes shared state holds its lock exclusively.
// The kernel releases the lock when the process ends.
type directory struct {
	path string
	file *os.File
}

func openDirectory(path string) (*directory, error) {
	if err := checkBPFFS(filepath.Dir(path)); err != nil {
		return nil, err
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("shared counters are found through %s: %w%s", path, err, permission(err))
	}
	dir, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("shared counters are found through %s: %w%s", path, err, permission(err))
	}
	info, err := dir.Stat()
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	if owner := info.Sys().(*syscall.Stat_t).Uid; int(owner) != os.Geteuid() || info.Mode().Perm()&0o022 != 0 {
		dir.Close()
		return nil, fmt.Errorf("shared counters are found through %s, which others may change (owner %d, mode %v). Remove it",
			path, owner, info.Mode().Perm())
	}
	return &directory{path: path, file: dir}, nil
}

func checkBPFFS(path string) error {
	is, err := kernel.IsBPFFS(path)
	if err != nil {
		return fmt.Errorf("shared counters are found through bpffs on %s: %w%s", path, err, permission(err))
	}
	if !is {
		return fmt.Errorf("shared counters are found through bpffs, which is not mounted on %s. Try: mount -t bpf bpf %s", path, path)
	}
	return nil
}

// permission returns the end of an error message that says how to fix missing permissions, or "".
func permission(err error) string {
	if !errors.Is(err, fs.ErrPermission) {
		return ""
	}
	return ". " + kernel.Remedy("Counters are shared between sessions of root, or of a user with CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN (to find objects of others by ID)")
}

func (d *directory) close() error { return d.file.Close() }

// lockTimeout is the longest time that a session waits for the lock. Joining takes milliseconds.
const lockTimeout = time.Minute

// lock takes the lock: alone to change shared state, lookOnly to read it.
func (d *directory) lock(how int) (unlock func(), err error) {
	unlock = func() { syscall.Flock(int(d.file.Fd()), syscall.LOCK_UN) }
	err = syscall.Flock(int(d.file.Fd()), how|syscall.LOCK_NB)
	if err == nil {
		return unlock, nil
	}
	if !errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, fmt.Errorf("lock %s: %w", d.path, err)
	}
	done := make(chan error, 1)
	go func() {
		for {
			if err := syscall.Flock(int(d.file.Fd()), how); !errors.Is(err, syscall.EINTR) {
				done <- err
				return
			}
		}
	}()
	select {
	case err = <-done:
	case <-time.After(lockTimeout):
		err = fmt.Errorf("another session has kept it for %v: see /proc/locks for its process", lockTimeout)
	}
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", d.path, err)
	}
	return unlock, nil
}

// pin returns the path of the pinned map of IDs. Versions of bperf with different programs or tables have different
// paths, and do not share.
func (d *directory) pin() string {
	layout := sha256.Sum256(append(_CountersBytes, layoutVersion))
	return filepath.Join(d.path, fmt.Sprintf("counters-%x", layout[:8]))
}

// layoutVersion changes if the meaning of the tables or of ids changes while the programs stay the same.
const layoutVersion = 1

// ids is the value of the pinned map. An ID keeps nothing alive: each object lives as long as a session has it open.
type ids struct {
	Maps     [len(mapNames)]uint32     // in the order of mapNames
	Programs [len(programNames)]uint32 // in the order of programNames
	Hotplug  uint32                    // link of on_hotplug
	Links    [len(hookNames)]uint32    // in the order of hookNames; 0 while no tasks or cgroups are counted
}

// load reads the IDs. The error wraps fs.ErrNotExist if there are none.
func (d *directory) load() (ids, error) {
	var known ids
	m, err := ebpf.LoadPinnedMap(d.pin(), nil)
	if err != nil {
		return ids{}, fmt.Errorf("open %s: %w%s", d.pin(), err, permission(err))
	}
	defer m.Close()
	if err := m.Lookup(uint32(0), &known); err != nil {
		return ids{}, fmt.Errorf("read %s: %w", d.pin(), err)
	}
	return known, nil
}

// store pins the IDs and replaces older ones.
func (d *directory) store(known ids) error {
	m, err := OpenPin(d.pin(), &ebpf.MapSpec{
		Name: "bperf_ids", Type: ebpf.Array, KeySize: 4, ValueSize: uint32(unsafe.Sizeof(ids{})), MaxEntries: 1})
	if err != nil {
		return err
	}
	defer m.Close()
	if err := m.Put(uint32(0), known); err != nil {
		return fmt.Errorf("write %s: %w", d.pin(), err)
	}
	return nil
}

// OpenPin opens the map that is pinned at a path. If there is none, it creates and pins one with mode 0600. The caller holds the lock.
func OpenPin(path string, spec *ebpf.MapSpec) (*ebpf.Map, error) {
	m, err := ebpf.LoadPinnedMap(path, nil)
	if errors.Is(err, fs.ErrNotExist) {
		m, err = createPin(path, spec)
	}
	if err != nil {
		return nil, fmt.Errorf("pin %s: %w", path, err)
	}
	return m, nil
}

func createPin(path string, spec *ebpf.MapSpec) (*ebpf.Map, error) {
	m, err := ebpf.NewMap(spec)
	if err != nil {
		return nil, err
	}
	if err := m.Pin(path); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, os.Chmod(path, 0o600)
}

// remove removes the pin.
func (d *directory) remove() error {
	if err := os.Remove(d.pin()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", d.pin(), err)
	}
	return nil
}
