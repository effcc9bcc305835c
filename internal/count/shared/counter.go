// Package shared counts with perf events that all sessions of a machine share. There is one perf event per distinct event and CPU,
// however many sessions count it, so that sessions do not multiplex each other's events. docs/shared.md describes the design.
//
// The package uses these words:
//
//   - A session is one open Counter.
//   - A token is a small BPF map that only the session's process keeps open. A session lives as long as its token exists.
//   - The directory is one in bpffs with a lock and a pinned map. The map has the IDs of the shared BPF maps, programs and links.
//     Each session opens these objects and holds them open. When the last session ends, in whatever way, the kernel frees the BPF
//     programs and the perf events.
//   - A slot is an element of the table of shared events. A session has a number, from 1, in the table of sessions.
//   - A unit is a part of a session's target with sums of its own: a cgroup, a thread, or all threads together.
//   - A node is a set of tasks, or a cgroup, that the same sessions count. Its parent is a node that fewer sessions count. What a task
//     does is added to the sums of one node, and a session's count is the sum over its nodes and all nodes below them.
//   - The heir of a node is the node for the children of its tasks.
//   - A node is armed if it counts nothing for its session until its tasks execute a command.
//   - A bank is a set of 8 events whose sums of a node are one element of a map.
//   - A track has the node that a CPU counts for now, and the readings at which that began. Each CPU has two: one for
//     nodes of tasks and one for nodes of cgroups.
//   - sync is a BPF program that updates the sums of the CPU on which it runs. A session runs it before it reads.
//   - The hooks are BPF programs on tracepoints. They are attached while at least one session counts tasks or cgroups.
//   - The book has the tables of nodes and sessions as a session reads them under the lock, changes them and writes them back.
//   - A leader is a BPF program of upstream perf, or in its layout, that counts an event for several sessions (package upstream).
//     A follower is a BPF program of bperf that adds a leader's counts to the sums of the nodes.
//   - A cell is a reading of an event, as in package count.
//
// It needs Linux 5.15 with BTF, bpffs on /sys/fs/bpf, and root or CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN.
package shared

import (
	"errors"
	"fmt"
	"sync"

	"github.com/cilium/ebpf"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/target"
)

// Counter is a count.Counter of shared events. It is not safe for concurrent use.
type Counter struct {
	plan
	reader

	mu      sync.Mutex // between the methods and followCPUs
	uevents target.CPUChanges
	failed  error        // from followCPUs
	joined  map[int]bool // CPUs that came online while the counter was enabled
	dir     *directory
	token   *ebpf.Map
	lost    Lost // up to Open

	afterCPUs func() error // the argument of AfterCPUs; nil until it is called

	enabled bool
	base    []perfevent.Reading // of the cells, at Enable
	now     []perfevent.Reading // of the cells, the last ones
}

// Enable starts counting.
func (c *Counter) Enable() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.enabled {
		return nil
	}
	if err := c.read(c.base); err != nil {
		return fmt.Errorf("start counting: %w", err)
	}
	c.enabled = true
	return nil
}

// Disable stops counting.
func (c *Counter) Disable() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.enabled {
		return nil
	}
	if err := c.read(c.now); err != nil {
		return fmt.Errorf("stop counting: %w", err)
	}
	for i := range c.cells {
		c.cells[i].Add(c.now[i].Sub(c.base[i]))
	}
	c.enabled = false
	return nil
}

// Read appends the current readings to dst.
func (c *Counter) Read(dst []count.Cell) ([]count.Cell, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := len(dst)
	dst = append(dst, c.cells...)
	if !c.enabled {
		return dst, nil
	}
	if err := c.read(c.now); err != nil {
		return nil, err
	}
	for i := range c.cells {
		dst[first+i].Add(c.now[i].Sub(c.base[i]))
	}
	return dst, nil
}

// Err returns why an event is not counted, a *count.Unsupported, or nil.
func (c *Counter) Err(event int) error { return c.events[event].err }

// Failed returns the errors of following CPUs that went offline or came online, or nil. Read returns the same error.
func (c *Counter) Failed() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

// Close ends the session. It closes the perf events that no other session counts.
func (c *Counter) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.o == nil {
		return nil
	}
	err := errors.Join(c.leave(), c.o.close(), c.followed.close(), c.dir.close(), c.uevents.Close())
	c.o, c.cells, c.enabled = nil, nil, false
	return err
}

// read reads the counts of all cells since the shared sums exist.
func (c *Counter) read(dst []perfevent.Reading) error {
	clear(dst)
	if c.failed != nil {
		return c.failed
	}
	if !c.units {
		return c.readSystem(dst, c.cpus)
	}
	unlock, err := c.dir.lock(lookOnly)
	if err != nil {
		return err
	}
	defer unlock()
	return c.readUnits(dst)
}
