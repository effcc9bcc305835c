// Package upstream implements the layout that perf publishes for `perf stat --bpf-counters`. With it, sessions of perf and
// bperf share counters.
//
// A leader counts one event for all sessions. It is a BPF program named on_switch on the raw tracepoint sched_switch: it reads the
// event's counter on its CPU, and stores the growth since its last run in the map diff_readings. A follower is an
// fexit program on the leader that adds this growth to its session's own sums. A leader lives as long as a process has
// its link open; usually each session that follows it does. The attr map is a hash map pinned in bpffs through which sessions find
// leaders: its keys are the bytes of struct perf_event_attr, its values IDs. IDs keep nothing alive, so the map may have
// entries of leaders that are gone.
//
// The package follows perf 6.1 to 7.2 (tools/perf/util/bpf_counter.c, bpf_skel/bperf_leader.bpf.c). It needs Linux
// 5.10, the first version that runs raw tracepoint programs with BPF_PROG_TEST_RUN. It also needs CAP_SYS_ADMIN, without which
// the kernel opens no link, program or map by its ID.
package upstream

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"

	"github.com/cilium/ebpf"
)

// DefaultPath is the path of perf's attr map without perf stat --bpf-attr-map.
const DefaultPath = "/sys/fs/bpf/perf_attr_map"

// maxEntries is the number of leaders that perf's attr map has room for.
const maxEntries = 16

// AttrMap is an open attr map. It is not safe for concurrent use.
type AttrMap struct {
	path    string
	m       *ebpf.Map
	keySize int
}

// Open opens the attr map pinned at path. The error wraps fs.ErrNotExist if there is none, and fs.ErrPermission
// if the user may not use it.
func Open(path string) (*AttrMap, error) {
	if err := checkPath(path); err != nil {
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

// Create opens the attr map at path. If there is none, it creates one for the perf of the running kernel's version, which
// distributions install with that kernel. The path must be in a bpffs. The map stays when this process ends; only its owner
// can use it.
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
	err = m.Pin(path) // with mode 0600, as the kernel pins all objects
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

// RemoveEmpty removes the attr map at path if it has no live leaders. It is no error if there is no map.
func RemoveEmpty(path string) error {
	a, err := Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer a.Close() // also unlocks it
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

// Close closes and unlocks the map.
func (a *AttrMap) Close() error { return a.m.Close() }

// Lock waits until no other session has the map locked, and locks it until Close. Leader and Register need the lock.
//
// As in perf, it is flock(2) on the map's descriptor. In the kernel, BPF maps, programs and links, epolls, eventfds and
// more are all the same file (anon_inode), so the lock excludes every process that locks any of these. A
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
