// Package shared counts with perf events that all sessions of a machine share. There is one perf event per distinct event and CPU,
// however many sessions count it, so that sessions do not multiplex each other's events. docs/shared.md describes the design.
//
// The package uses these words:
//
//   - A session is one open Counter.
//   - A token is a small BPF map that only the session's process keeps open. A session lives as long as its token exists.
//   - The place is a directory in bpffs with a lock and a pinned map. The map has the IDs of the shared BPF maps, programs and links.
//     Each session opens these objects and holds them open. When the last session ends, in whatever way, the kernel frees the BPF
//     programs and the perf events.
//   - A slot is an element of the table of shared events. A session also has a slot, in the table of sessions.
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
	"math/bits"
	"slices"
	"sync"

	"github.com/cilium/ebpf"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/target"
)

// Counter is a count.Counter of shared events. It is not safe for concurrent use.
type Counter struct {
	mu       sync.Mutex // between the methods and followCPUs
	uevents  target.CPUChanges
	failed   error        // from followCPUs
	joined   map[int]bool // CPUs that came online while the counter was enabled
	o        *objects
	place    *place
	token    *ebpf.Map
	session  session
	lost     Lost              // up to Open
	followed map[int]*followed // by slot

	afterCPUs func() error // the argument of AfterCPUs; nil until it is called

	where    Where
	cgroupV1 bool
	target   target.Target
	options  Options
	events   []counted
	cpus     []int        // of the target, with LaterCPUs also the offline ones
	cells    []count.Cell // events in order, with the counts up to the last Disable
	units    bool         // the target has tasks or cgroups, not CPUs

	enabled bool
	base    []perfevent.Reading // of the cells, at Enable
	now     []perfevent.Reading // of the cells, the last ones
}

// counted is an event of the list.
type counted struct {
	slot  int
	cpus  []int // CPUs of the target on which it is counted
	opens []int // CPUs on which it has a perf event while they are online; nil for all
	err   error
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

// Close ends the session. It closes the perf events that no other session counts.
func (c *Counter) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.o == nil {
		return nil
	}
	err := errors.Join(c.leave(), c.closeObjects(), c.place.close(), c.uevents.Close())
	c.o, c.cells, c.enabled = nil, nil, false
	return err
}

// closeObjects closes this session's descriptors of all shared objects.
func (c *Counter) closeObjects() error {
	errs := []error{c.o.close()}
	for _, f := range c.followed {
		errs = append(errs, f.close())
	}
	return errors.Join(errs...)
}

// runLeaders runs the upstream leaders on these CPUs, which updates their counts.
func (c *Counter) runLeaders(cpus []int) error {
	for _, f := range c.followed {
		if err := f.run(cpus); err != nil {
			return err
		}
	}
	return nil
}

// read reads the counts of all cells since the shared sums exist.
func (c *Counter) read(dst []perfevent.Reading) error {
	clear(dst)
	if c.failed != nil {
		return c.failed
	}
	if !c.units {
		return c.readSystem(dst)
	}
	unlock, err := c.place.lock(lookOnly)
	if err != nil {
		return err
	}
	defer unlock()
	return c.readUnits(dst)
}

// readSystem reads the events of a target of CPUs.
func (c *Counter) readSystem(dst []perfevent.Reading) error {
	own := c.session.events
	for slot := range c.followed {
		own &^= 1 << slot
	}
	if err := c.o.syncCPUs(c.cpus, syncSystem, own); err != nil {
		return err
	}
	if err := c.runLeaders(c.cpus); err != nil {
		return err
	}
	sums := make(map[int][]perfevent.Reading) // by slot and CPU
	for i, cell := range c.cells {
		slot := c.events[cell.Event].slot
		if sums[slot] == nil {
			var err error
			if sums[slot], err = c.systemSums(slot); err != nil {
				return err
			}
		}
		dst[i] = sums[slot][cell.CPU]
	}
	return nil
}

// systemSums returns the counts of an event, by CPU.
func (c *Counter) systemSums(slot int) ([]perfevent.Reading, error) {
	if f := c.followed[slot]; f != nil {
		return f.readings()
	}
	var all []countersSystem
	if err := c.o.maps[countersMapSystems].Lookup(uint32(slot), &all); err != nil {
		return nil, fmt.Errorf("read the sums of the CPUs: %w", err)
	}
	sums := make([]perfevent.Reading, len(all))
	for cpu := range all {
		sums[cpu] = all[cpu].Sum.reading()
	}
	return sums, nil
}

func (r countersReading) reading() perfevent.Reading {
	return perfevent.Reading{Value: r.Value, Enabled: r.Enabled, Running: r.Enabled - r.Stopped}
}

// readUnits reads the sums of the session's nodes and of all nodes below them. First it updates the CPUs on which such a
// node runs. The caller holds the lock, so that no node moves.
func (c *Counter) readUnits(dst []perfevent.Reading) error {
	var state countersSharedState
	if err := c.o.maps[mapState].Lookup(uint32(0), &state); err != nil {
		return fmt.Errorf("read the shared state: %w", err)
	}
	table, err := readNodes(c.o, state)
	if err != nil {
		return err
	}
	units := table.units(c.session)
	if err := c.syncWhere(units); err != nil {
		return err
	}
	places := c.placesOfCells()
	for id, of := range units {
		for bank := range uint32(maxEvents / bankEvents) {
			if c.session.events>>(bank*bankEvents)&(1<<bankEvents-1) == 0 {
				continue
			}
			if err := c.addBank(dst, places, id, bank, of); err != nil {
				return err
			}
		}
	}
	return nil
}

// syncWhere runs sync and the leaders on the CPUs on which one of the nodes runs now.
func (c *Counter) syncWhere(units map[uint32][]uint32) error {
	var cpus []countersCpu
	if err := c.o.maps[countersMapCpus].Lookup(uint32(0), &cpus); err != nil {
		return fmt.Errorf("read what the CPUs count: %w", err)
	}
	var run []int
	for cpu, at := range cpus {
		for _, track := range at.Tracks {
			if units[track.Node] != nil {
				run = append(run, cpu)
				break
			}
		}
	}
	if err := c.o.syncCPUs(run, syncTracks, 0); err != nil {
		return err
	}
	return c.runLeaders(run)
}

// unitPlace identifies the cells of one event and unit, which differ only in the CPU.
type unitPlace struct {
	slot int
	unit uint32
}

// placesOfCells returns the indexes of the cells of each event and unit.
func (c *Counter) placesOfCells() map[unitPlace][]int {
	places := make(map[unitPlace][]int)
	for i, cell := range c.cells {
		p := unitPlace{c.events[cell.Event].slot, c.unit(cell)}
		places[p] = append(places[p], i)
	}
	return places
}

// unit returns the unit that a cell belongs to.
func (c *Counter) unit(cell count.Cell) uint32 {
	return uint32(max(cell.Thread, cell.Cgroup, 0))
}

// bankSums is an element of the map of sums: those of a bank of events.
type bankSums [bankEvents]countersReading

// addBank adds the sums of a node for one bank to the cells of the units that the node counts for.
func (c *Counter) addBank(dst []perfevent.Reading, places map[unitPlace][]int, id, bank uint32, units []uint32) error {
	var sums []bankSums // by CPU
	err := c.o.maps[countersMapSums].Lookup(countersBankKey{Node: id, Bank: bank}, &sums)
	if errors.Is(err, ebpf.ErrKeyNotExist) { // the node has never counted these events
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the sums of a node: %w", err)
	}
	for events := c.session.events >> (bank * bankEvents) & (1<<bankEvents - 1); events != 0; events &= events - 1 {
		i := bits.TrailingZeros64(events)
		for _, unit := range units {
			for _, cell := range places[unitPlace{int(bank*bankEvents) + i, unit}] {
				for cpu := range sums {
					if at := c.cells[cell].CPU; at == count.None || at == cpu {
						dst[cell].Add(sums[cpu][i].reading())
					}
				}
			}
		}
	}
	return nil
}

// supported returns the slots of the events that are counted, one bit each.
func (c *Counter) supported() (events uint64) {
	for _, e := range c.events {
		if e.err == nil {
			events |= 1 << e.slot
		}
	}
	return events
}

// makeCells makes the cells, events in order.
func (c *Counter) makeCells() {
	for i, e := range c.events {
		if e.err != nil {
			continue
		}
		cell := count.Cell{Event: i, CPU: count.None, Thread: count.None, Cgroup: count.None, Program: count.None}
		switch {
		case len(c.target.Threads) > 0 && c.options.PerThread:
			for thread := range c.target.Threads {
				cell.Thread = thread
				c.cells = append(c.cells, cell)
			}
		case len(c.target.Threads) > 0:
			c.cells = append(c.cells, cell)
		default:
			for cgroup := range max(len(c.target.Cgroups), 1) {
				if len(c.target.Cgroups) > 0 {
					cell.Cgroup = cgroup
				}
				for _, cpu := range e.cpus {
					cell.CPU = cpu
					c.cells = append(c.cells, cell)
				}
			}
		}
	}
	c.cells = slices.Clip(c.cells)
	c.base = make([]perfevent.Reading, len(c.cells))
	c.now = make([]perfevent.Reading, len(c.cells))
}
