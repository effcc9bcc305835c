package shared

import (
	"path/filepath"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// Array returns the map of all shared perf events. BPF programs read the event ev of this session on a CPU from element Row(ev)*N + CPU,
// where N is the number of possible CPUs.
func (c *Counter) Array() *ebpf.Map { return c.o.maps[countersMapEvents] }

// Row returns the row in Array of an event for which Err returns nil.
func (c *Counter) Row(event int) int { return c.events[event].slot }

// CPUs returns the CPUs on which an event is counted.
func (c *Counter) CPUs(event int) []int { return c.events[event].cpus }

// Token returns the number of this session for Lives, which any process can call.
func (c *Counter) Token() (uint32, error) { return MapID(c.token) }

// Lives reports whether the session with this token still lives.
func Lives(token uint32) bool { return tokenLives(token) }

// Programs returns the IDs of the BPF programs that the sessions of a directory share. It returns nil if nothing is shared.
func Programs(dir string) []uint32 {
	known, err := (&directory{path: dir}).load()
	if err != nil {
		return nil
	}
	programs := known.Programs[:]
	for _, id := range append(known.Links[:], known.Hotplug) {
		l, err := link.NewFromID(link.ID(id))
		if err != nil {
			continue
		}
		if info, err := l.Info(); err == nil {
			programs = append(programs, uint32(info.Program))
		}
		l.Close()
	}
	return programs
}

// Lock takes the lock of the directory, and keeps this session from handling CPUs that come online or go offline. No session changes shared
// state until the caller calls unlock.
func (c *Counter) Lock() (unlock func(), err error) {
	c.mu.Lock()
	release, err := c.dir.lock(alone)
	if err != nil {
		c.mu.Unlock()
		return nil, err
	}
	return func() {
		release()
		c.mu.Unlock()
	}, nil
}

// Pin returns the path of a file in the session's directory in bpffs, which only the session's user can change.
func (c *Counter) Pin(name string) string { return filepath.Join(c.dir.path, name) }

// AfterCPUs sets the function that the session calls, with the lock held, after it has handled CPUs that came online or went offline.
func (c *Counter) AfterCPUs(f func() error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.afterCPUs = f
}
