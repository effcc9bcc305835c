package shared

import (
	"path/filepath"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// Array returns the map of all shared perf events. BPF programs read the event ev of this session on a CPU from element Row(ev)*N + CPU,
// where N is the number of possible CPUs.
func (c *Counter) Array() *ebpf.Map { return c.o.maps[countersMapEvents] }

// Row returns where in Array an event is that is counted (Err returns nil for it).
func (c *Counter) Row(event int) int { return c.events[event].slot }

// CPUs returns the CPUs on which an event is counted.
func (c *Counter) CPUs(event int) []int { return c.events[event].cpus }

// Token returns a number of this session that Lives takes, also in other processes.
func (c *Counter) Token() (uint32, error) { return MapID(c.token) }

// Lives reports whether the session with a token has not ended.
func Lives(token uint32) bool { return tokenLives(token) }

// Programs returns the IDs of the BPF programs through which the sessions of a directory share; none if nothing is shared.
func Programs(dir string) []uint32 {
	known, err := (&place{path: dir}).load()
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

// Lock keeps the sessions that share counters from changing anything, and CPUs from coming and going, until unlock is called.
func (c *Counter) Lock() (unlock func(), err error) {
	c.mu.Lock()
	release, err := c.place.lock(alone)
	if err != nil {
		c.mu.Unlock()
		return nil, err
	}
	return func() {
		release()
		c.mu.Unlock()
	}, nil
}

// Pin returns the path of a file in the directory in bpffs that only the user of this session can change.
func (c *Counter) Pin(name string) string { return filepath.Join(c.place.path, name) }

// AfterCPUs has f called, with the lock held, each time that CPUs have come or gone and the perf events with them.
func (c *Counter) AfterCPUs(f func() error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.afterCPUs = f
}
