// Package upstream speaks the layout that perf publishes for `perf stat --bpf-counters`, in which sessions of perf and of
// bperf share counters.
//
// For each event there is a leader: a BPF program named on_switch on the raw tracepoint sched_switch, which reads the
// event's counter of the CPU that it runs on and leaves the growth since its last run in the map diff_readings.
// Followers are fexit programs on it, which add that growth to their own sums. A leader lives as long as somebody holds a
// descriptor of its link, usually each who follows it. Sessions find it by the IDs in a hash map pinned in bpffs, whose
// keys are the bytes of struct perf_event_attr: the attr map. IDs keep nothing alive, so that the map may have
// entries of leaders that are gone.
//
// Written after what perf 6.1 to 7.2 do (tools/perf/util/bpf_counter.c, bpf_skel/bperf_leader.bpf.c). Needs Linux
// 5.10, which is the first that runs programs on raw tracepoints by BPF_PROG_TEST_RUN, and CAP_SYS_ADMIN, without which
// the kernel gives nobody a link, a program or a map by its ID.
package upstream

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"

	"github.com/cilium/ebpf"
)

// DefaultPath is where perf has its attr map unless it is told otherwise (perf stat --bpf-attr-map).
const DefaultPath = "/sys/fs/bpf/perf_attr_map"

// maxEntries is how many leaders a map of perf's has room for.
const maxEntries = 16

// AttrMap is an open attr map. It is not for use by several goroutines at once.
type AttrMap struct {
	path    string
	m       *ebpf.Map
	keySize int
}

// Open opens the attr map pinned at path. The error is an fs.ErrNotExist where there is none, and an fs.ErrPermission
// where it may not be used.
func Open(path string) (*AttrMap, error) {
	if err := checkPlace(path); err != nil {
		return nil, err
	}
	m, err := ebpf.LoadPinnedMap(path, nil)
	if err != nil {
		return nil, openError(path, err)
	}
	keySize, err := checkLayout(path, m)
	if err != nil {
		m.Close()
		return nil, err
	}
	return &AttrMap{path, m, keySize}, nil
}

// Create opens the attr map at path, and where there is none, makes one for the perf of the running kernel's version, which
// is what distributions install with it. Its path has to be in a bpffs. It stays when this process ends; only root can
// use it.
func Create(path string) (*AttrMap, error) {
	if a, err := Open(path); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return a, err
	}
	if err := checkFileSystem(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("create the attr map %s: %w", path, err)
	}
	keySize, err := newKeySize()
	if err != nil {
		return nil, fmt.Errorf("create the attr map %s: %w", path, err)
	}
	m, err := ebpf.NewMap(&ebpf.MapSpec{
		Name:       "perf_attr_map",
		Type:       ebpf.Hash,
		KeySize:    uint32(keySize),
		ValueSize:  8,
		MaxEntries: maxEntries,
	})
	if err != nil {
		return nil, createError(path, err)
	}
	err = m.Pin(path) // mode 0600, which is the kernel's choice for all pins
	if errors.Is(err, fs.ErrExist) {
		m.Close()
		return Open(path)
	}
	if err != nil {
		m.Close()
		return nil, createError(path, err)
	}
	return &AttrMap{path, m, keySize}, nil
}

// RemoveEmpty removes the attr map at path if there is one without live leaders.
func RemoveEmpty(path string) error {
	a, err := Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer a.Close() // and unlocks it
	if err := a.Lock(); err != nil {
		return err
	}
	if err := a.sweep(); err != nil {
		return err
	}
	keys, err := a.keys()
	if err != nil || len(keys) > 0 {
		return err
	}
	return a.m.Unpin()
}

// Close closes the map, and unlocks it.
func (a *AttrMap) Close() error { return a.m.Close() }

// Lock waits until no other session uses the map, and keeps them out until Close. All methods that take an event need it.
//
// As in perf, it is flock(2) on the map's descriptor. In the kernel, BPF maps, programs and links, epolls, eventfds and
// more are all one and the same file (anon_inode), so that it keeps everybody out who locks any of these: a
// process that holds a lock on another BPF map would wait for itself forever.
func (a *AttrMap) Lock() error {
	for {
		err := syscall.Flock(a.m.FD(), syscall.LOCK_EX)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("lock the attr map %s: %w", a.path, err)
		}
		return nil
	}
}
