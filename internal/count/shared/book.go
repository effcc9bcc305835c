package shared

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"github.com/cilium/ebpf"

	"github.com/bperf/bperf/internal/procfs"
)

// book has the tables as a session reads them under the lock, to change them and write them back.
type book struct {
	o        *objects
	state    countersSharedState
	sessions []countersSession
	nodes    nodes
	now      time.Duration // since 1970

	written nodes             // as the kernel has them
	live    map[uint32]uint64 // events of the live sessions, by their numbers
}

// openBook reads the tables. The caller holds the lock as long as it uses the book.
func openBook(o *objects) (*book, error) {
	b := &book{o: o, sessions: make([]countersSession, maxSessions), now: time.Duration(time.Now().UnixNano())}
	if err := o.maps[mapState].Lookup(uint32(0), &b.state); err != nil {
		return nil, fmt.Errorf("read the shared state: %w", err)
	}
	if err := readArray(o.maps[countersMapSessions], b.sessions); err != nil {
		return nil, fmt.Errorf("read the table of sessions: %w", err)
	}
	var err error
	if b.nodes, err = readNodes(o, b.state); err != nil {
		return nil, err
	}
	b.written = slices.Clone(b.nodes)
	return b, nil
}

// readNodes reads the part of the table that is in use.
func readNodes(o *objects, s countersSharedState) (nodes, error) {
	n := make(nodes, max(s.Nodes, 1))
	if err := readArray(o.maps[countersMapNodes], n); err != nil {
		return nil, fmt.Errorf("read the table of nodes: %w", err)
	}
	return n, nil
}

// readArray reads the first elements of an array.
func readArray[T any](m *ebpf.Map, dst []T) error {
	var cursor ebpf.MapBatchCursor
	_, err := m.BatchLookup(&cursor, make([]uint32, len(dst)), dst, nil)
	if errors.Is(err, ebpf.ErrKeyNotExist) { // the end of the array
		return nil
	}
	return err
}

// sweep removes the sessions that have ended from all tables.
func (b *book) sweep() error {
	b.live = make(map[uint32]uint64)
	for i := range b.sessions {
		s := &b.sessions[i]
		if s.Token == 0 {
			continue
		}
		if tokenLives(s.Token) {
			b.live[uint32(i)+1] = s.Events
			continue
		}
		*s = countersSession{}
		if err := b.o.maps[countersMapSessions].Put(uint32(i), s); err != nil {
			return err
		}
	}
	b.nodes.settle(b.live, b.now)
	if b.nodes.resting() {
		if err := b.sweepNodes(); err != nil {
			return err
		}
	}
	s, err := readSlots(b.o)
	if err != nil {
		return err
	}
	return b.settleEvents(s)
}

// sweepNodes moves the tasks and cgroups of ended nodes to the nodes above, and deletes the sums that no session
// reads.
func (b *book) sweepNodes() error {
	if err := b.write(); err != nil { // from here on, new children go to the node above
		return err
	}
	if err := b.sweepTasks(); err != nil {
		return fmt.Errorf("sweep the tasks of ended sessions: %w", err)
	}
	if err := b.sweepCgroups(); err != nil {
		return fmt.Errorf("sweep the cgroups of ended sessions: %w", err)
	}
	if err := b.syncAll(); err != nil {
		return err
	}
	for id := range b.nodes {
		if n := &b.nodes[id]; n.Session == 0 && n.Retired != 0 && n.Forward == 0 {
			if err := b.deleteSums(uint32(id)); err != nil {
				return fmt.Errorf("delete the sums of ended sessions: %w", err)
			}
		}
	}
	b.nodes.clear(b.now)
	return nil
}

func (b *book) sweepTasks() error {
	return eachElement(b.o.maps[countersMapTasks], func(task uint64, from uint32) error {
		has, id := from&exited, from&^exited
		switch {
		case int(id) >= len(b.nodes) || b.nodes[id].Session == 0 && b.nodes[id].Forward == 0:
			return b.o.moveTask(task, from, 0)
		case b.nodes[id].Session != 0:
			return nil
		default:
			return b.o.moveTask(task, from, b.nodes[id].Forward|has)
		}
	})
}

func (b *book) sweepCgroups() error {
	cgroups := b.o.maps[countersMapCgroups]
	n := uint32(0)
	err := eachElement(cgroups, func(cgroup uint64, id uint32) error {
		to := b.nodes.live(id)
		if to == 0 || b.nodes[to].Cgroup != cgroup { // no live node is for this cgroup itself: a cgroup above it counts, if any
			return cgroups.Delete(cgroup)
		}
		n++
		if to == id {
			return nil
		}
		return cgroups.Put(cgroup, to)
	})
	if err != nil {
		return err
	}
	return b.changeCgroups(n)
}

// settleEvents closes the events that no session counts, and writes the kinds of the others for the programs.
func (b *book) settleEvents(s *slots) error {
	var events uint64
	for _, of := range b.live {
		events |= of
	}
	if err := s.keep(events); err != nil {
		return err
	}
	b.state.Events = events
	b.state.SwitchEvents, b.state.CgroupSwitchEvents = s.switchEvents()
	b.state.PartialEvents, b.state.FollowedEvents = s.partialEvents(), s.followedEvents()
	return b.writeState()
}

// changeCgroups writes for the programs that the map of cgroups has changed and now has n elements.
func (b *book) changeCgroups(n uint32) error {
	b.state.Cgroups = n
	b.state.CgroupEpoch++
	return b.writeState()
}

// eachElement calls f for each element of a hash. f may change and delete the element.
func eachElement(m *ebpf.Map, f func(key uint64, value uint32) error) error {
	const batch = 4096
	keys, values := make([]uint64, batch), make([]uint32, batch)
	var all []uint64
	var ids []uint32
	var cursor ebpf.MapBatchCursor
	for {
		n, err := m.BatchLookup(&cursor, keys, values, nil)
		all, ids = append(all, keys[:n]...), append(ids, values[:n]...)
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			break
		}
		if err != nil {
			return err
		}
	}
	for i := range all {
		if err := f(all[i], ids[i]); err != nil {
			return err
		}
	}
	return nil
}

func (b *book) deleteSums(id uint32) error {
	for bank := range uint32(maxEvents / bankEvents) {
		err := b.o.maps[countersMapSums].Delete(countersBankKey{Node: id, Bank: bank})
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return err
		}
	}
	return nil
}

// write writes the nodes that have changed, after it has made sums for their new events.
func (b *book) write() error {
	if n := uint32(len(b.nodes)); n > b.state.Nodes {
		b.state.Nodes = n
		if err := b.writeState(); err != nil {
			return err
		}
	}
	for id := range b.nodes {
		var old countersNode
		if id < len(b.written) {
			old = b.written[id]
		}
		if b.nodes[id] == old {
			continue
		}
		if err := b.makeSums(uint32(id), b.nodes[id].Events&^old.Events); err != nil {
			return err
		}
	}
	for id := range b.nodes {
		if id < len(b.written) && b.written[id] == b.nodes[id] {
			continue
		}
		if err := b.o.maps[countersMapNodes].Put(uint32(id), &b.nodes[id]); err != nil {
			return fmt.Errorf("write the table of nodes: %w", err)
		}
	}
	b.written = slices.Clone(b.nodes)
	return nil
}

// makeSums makes the sums of a node for more events, if they do not exist yet.
func (b *book) makeSums(id uint32, events uint64) error {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return err
	}
	for events != 0 {
		bank := uint32(bits.TrailingZeros64(events) / bankEvents)
		events &^= (1<<bankEvents - 1) << (bank * bankEvents)
		err := b.o.maps[countersMapSums].Update(countersBankKey{Node: id, Bank: bank}, make([]bankSums, cpus), ebpf.UpdateNoExist)
		if err != nil && !errors.Is(err, ebpf.ErrKeyExist) {
			return fmt.Errorf("make room for the sums of %d events of a node: %w", bankEvents, err)
		}
	}
	return nil
}

func (b *book) writeState() error {
	if err := b.o.maps[mapState].Put(uint32(0), &b.state); err != nil {
		return fmt.Errorf("write the shared state: %w", err)
	}
	return nil
}

// syncAll runs sync on all online CPUs, which updates their tracks. Without hooks there are no tracks to update.
func (b *book) syncAll() error {
	if b.o.links == nil {
		return nil
	}
	online, err := procfs.OnlineCPUs()
	if err != nil {
		return err
	}
	return b.o.syncCPUs(online, syncTracks, 0)
}

// reset clears the state of the CPUs from the last time that the hooks were attached.
func (b *book) reset() error {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return err
	}
	return b.o.maps[countersMapCpus].Put(uint32(0), make([]countersCpu, cpus))
}

// enter enters a session in the table. putSession adds its events once they are open.
func (b *book) enter(token *ebpf.Map) (session, error) {
	id, err := MapID(token)
	if err != nil {
		return session{}, err
	}
	i := slices.IndexFunc(b.sessions, func(s countersSession) bool { return s.Token == 0 })
	if i < 0 {
		return session{}, fmt.Errorf("%d sessions share counters already: no more can", maxSessions)
	}
	b.sessions[i] = countersSession{Token: id, Since: uint64(time.Now().UnixNano())}
	s := session{number: uint32(i) + 1}
	return s, b.putSession(s)
}

func (b *book) putSession(s session) error {
	b.sessions[s.number-1].Events = s.events
	b.live[s.number] = s.events
	if err := b.o.maps[countersMapSessions].Put(s.number-1, &b.sessions[s.number-1]); err != nil {
		return fmt.Errorf("write the table of sessions: %w", err)
	}
	return nil
}

// leave removes a session from all tables.
func (b *book) leave(s session) error {
	b.sessions[s.number-1] = countersSession{}
	if err := b.o.maps[countersMapSessions].Put(s.number-1, &b.sessions[s.number-1]); err != nil {
		return fmt.Errorf("write the table of sessions: %w", err)
	}
	return b.sweep()
}
