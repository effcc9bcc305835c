package program

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/cilium/ebpf"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/kernel"
)

// session counts with the probes of a function, for one Counter. The caller of its methods holds the lock.
type session struct {
	*probes
	source   *source
	overhead func(*probesSet) (*overheads, error)
	measures bool                     // it needs the overhead
	inner    map[string]*ebpf.MapSpec // specifications of the elements of the maps positions and extremes

	at    []int  // position of each event while the session counts; -1 for those that are not counted
	order uint64 // its rank among the sessions of the probes, by the time when they began to count; 0 while it does not count

	base   *counted   // sums when it began to count
	total  *counted   // counts of earlier windows
	since  missedRuns // when it began to count
	missed missedRuns // in earlier windows
	ended  bool       // the probes are closed, and total is the result
}

// counted has counts by possible CPU.
type counted struct {
	cpus   []probesCopy
	events [][]eventCounts // by event of the session
}

// eventCounts has the counts of an event on a CPU.
type eventCounts struct {
	value, enabled, stopped uint64 // the times are of the runs that were read with times
	unread                  uint64 // runs in which the event could not be read
	probes                  uint64 // the overhead in value, or the overhead that was subtracted from it
	unmeasured              uint64 // runs with unknown overhead: it is not in probes, and was not subtracted
	buckets                 [count.Buckets]uint64

	// The extremes of the runs since the session began to count.
	min, max uint64
	ranged   bool
}

// widen extends the extremes to include others. aboveMin is the complement of a minimum, 0 without runs.
func (e *eventCounts) widen(aboveMin, most uint64) {
	switch {
	case aboveMin == 0: // no runs
	case !e.ranged:
		e.min, e.max, e.ranged = ^aboveMin, most, true
	default:
		e.min, e.max = min(e.min, ^aboveMin), max(e.max, most)
	}
}

func newCounted(cpus, events int) *counted {
	c := &counted{cpus: make([]probesCopy, cpus), events: make([][]eventCounts, events)}
	for i := range c.events {
		c.events[i] = make([]eventCounts, cpus)
	}
	return c
}

// grow adds the difference of two readings.
func (c *counted) grow(now, since *counted) {
	for cpu := range c.cpus {
		to, n, b := &c.cpus[cpu], &now.cpus[cpu], &since.cpus[cpu]
		to.Counted += n.Counted - b.Counted
		to.PlainTime += n.PlainTime - b.PlainTime
		to.FullTime += n.FullTime - b.FullTime
		for i := range to.Dropped {
			to.Dropped[i] += n.Dropped[i] - b.Dropped[i]
		}
		for ev := range c.events {
			c.events[ev][cpu].grow(&now.events[ev][cpu], &since.events[ev][cpu])
		}
	}
}

func (e *eventCounts) grow(now, since *eventCounts) {
	e.value += now.value - since.value
	e.enabled += now.enabled - since.enabled
	e.stopped += now.stopped - since.stopped
	e.unread += now.unread - since.unread
	e.probes += now.probes - since.probes
	e.unmeasured += now.unmeasured - since.unmeasured
	for i := range e.buckets {
		e.buckets[i] += now.buckets[i] - since.buckets[i]
	}
	if now.ranged {
		e.widen(^now.min, now.max)
	}
}

// members returns the members by token. It removes sessions whose process has ended.
func (s *session) members(state *probesSets) (map[uint32]probesMember, error) {
	all := make(map[uint32]probesMember)
	var token uint32
	var m probesMember
	entries := s.maps[probesMapMembers].Iterate()
	for entries.Next(&token, &m) {
		all[token] = m
	}
	if err := entries.Err(); err != nil {
		return nil, fmt.Errorf("read the sessions of a BPF program: %w", err)
	}
	for token := range all {
		if s.source.lives(token) {
			continue
		}
		if err := s.remove(token, all, state); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// remove removes a member. The last member that began before it gets its extremes; the members before that one read them there.
func (s *session) remove(token uint32, all map[uint32]probesMember, state *probesSets) error {
	gone := all[token]
	delete(all, token)
	var before uint32
	for t, m := range all {
		if m.Order < gone.Order && (before == 0 || m.Order > all[before].Order) {
			before = t
		}
	}
	if err := s.handOver(token, before); err != nil {
		return fmt.Errorf("take a session out of those of a BPF program: %w", err)
	}
	if state.Latest == uint64(token) {
		state.Latest = uint64(before)
	}
	if err := s.maps[probesMapMembers].Delete(token); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("take a session out of those of a BPF program: %w", err)
	}
	return s.freeRoom(gone.Positions &^ taken(all))
}

// handOver merges the extremes of one session into those of another, if there is one, and deletes them.
func (s *session) handOver(from, to uint32) error {
	given, err := s.extremesOf(from)
	if err != nil || given == nil {
		return err
	}
	defer given.Close()
	receiver, err := s.extremesOf(to)
	if err != nil {
		return err
	}
	if receiver != nil {
		defer receiver.Close()
		for position := range uint32(maxEvents) {
			var of, others []probesRange
			if err := errors.Join(given.Lookup(position, &of), receiver.Lookup(position, &others)); err != nil {
				return err
			}
			for cpu := range others {
				others[cpu].AboveMin, others[cpu].Max = max(others[cpu].AboveMin, of[cpu].AboveMin), max(others[cpu].Max, of[cpu].Max)
			}
			if err := receiver.Put(position, others); err != nil {
				return err
			}
		}
	}
	return unlessMissing(s.maps[probesMapExtremes].Delete(from))
}

// extremesOf opens the map of a session's extremes, by position; nil if it has none.
func (s *session) extremesOf(token uint32) (m *ebpf.Map, err error) {
	err = unlessMissing(s.maps[probesMapExtremes].Lookup(token, &m))
	return m, err
}

// unlessMissing returns err, or nil if err means that an element does not exist.
func unlessMissing(err error) error {
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil
	}
	return err
}

// taken returns the positions of the members, one bit each.
func taken(members map[uint32]probesMember) (positions uint64) {
	for _, m := range members {
		positions |= m.Positions
	}
	return positions
}

// needOverhead returns 1 if a member needs the overhead, otherwise 0.
func needOverhead(members map[uint32]probesMember) (any uint64) {
	for _, m := range members {
		any |= m.Measures
	}
	return any
}

// join makes the session a member, so that the probes read its events. It reports whether the set has changed. If so, the caller waits for runs that
// began before. Then the caller calls begin.
func (s *session) join(want []wanted) (changed bool, err error) {
	state, err := s.state()
	if err != nil {
		return false, err
	}
	members, err := s.members(state)
	if err != nil {
		return false, err
	}
	set, at, err := positionsOf(state.current(), taken(members), want)
	if err != nil {
		return false, err
	}
	set.On, set.Measured = 1, needOverhead(members)
	s.at = at
	state.Joined++
	s.order = state.Joined
	own := probesMember{Order: s.order}
	if s.measures {
		own.Measures, set.Measured = 1, 1
	}
	for _, position := range at {
		if position >= 0 {
			own.Positions |= 1 << position
		}
	}
	if err := s.makeRoom(own.Positions &^ taken(members)); err != nil {
		return false, err
	}
	if err := s.maps[probesMapMembers].Put(s.source.token, own); err != nil {
		return false, fmt.Errorf("become one of the sessions of a BPF program: %w", err)
	}
	return s.change(state, &set)
}

// makeRoom makes the maps of the given positions, and the map of this session's extremes.
func (s *session) makeRoom(positions uint64) error {
	for ; positions != 0; positions &= positions - 1 {
		if err := s.makeInner(probesMapPositions, uint32(bits.TrailingZeros64(positions))); err != nil {
			return err
		}
	}
	return s.makeInner(probesMapExtremes, s.source.token)
}

// makeInner makes a map as an element of a map of maps.
func (s *session) makeInner(outer string, key uint32) error {
	m, err := ebpf.NewMap(s.inner[outer])
	if err != nil {
		return fmt.Errorf("make room for what is counted in a BPF program: %w", err)
	}
	defer m.Close() // the outer map keeps it
	if err := s.maps[outer].Put(key, m); err != nil {
		return fmt.Errorf("make room for what is counted in a BPF program: %w", err)
	}
	return nil
}

// freeRoom deletes the maps of positions that no member needs. For each deletion the kernel waits for an RCU grace period (Linux 6.1
// even if there is nothing to delete).
func (s *session) freeRoom(positions uint64) error {
	for ; positions != 0; positions &= positions - 1 {
		if err := unlessMissing(s.maps[probesMapPositions].Delete(uint32(bits.TrailingZeros64(positions)))); err != nil {
			return fmt.Errorf("free the room for what was counted in a BPF program: %w", err)
		}
	}
	return nil
}

// change writes the state, and makes set the current one if it differs. It reports whether it differs.
func (s *session) change(state *probesSets, set *probesSet) (changed bool, err error) {
	if set.On == state.current().On && set.same(state.current()) {
		return false, s.putState(state)
	}
	if set.Measured != 0 {
		o, err := s.overhead(set)
		if err != nil {
			return false, err
		}
		set.Overhead, set.OverheadWithTimes, set.Unmeasured = o.plain, o.withTimes, o.unmeasured
	}
	return true, s.enact(state, set)
}

// begin begins to count, after join.
func (s *session) begin() (err error) {
	if s.base, err = s.read(true); err != nil {
		return err
	}
	state, err := s.state()
	if err != nil {
		return err
	}
	state.Latest = uint64(s.source.token)
	if err := s.putState(state); err != nil {
		return err
	}
	s.since, err = s.countMisses()
	return err
}

// end ends counting, and reports whether the set has changed. If so, the caller waits for the runs that began before, and calls settle.
func (s *session) end() (changed bool, err error) {
	if s.total, s.missed, err = s.now(); err != nil {
		return false, err
	}
	s.order = 0
	state, err := s.state()
	if err != nil {
		return false, err
	}
	members, err := s.members(state)
	if err != nil {
		return false, err
	}
	if err := s.remove(s.source.token, members, state); err != nil {
		return false, err
	}
	set, _, err := positionsOf(state.current(), taken(members), nil)
	if err != nil {
		return false, err
	}
	set.On, set.Measured = uint64(min(len(members), 1)), needOverhead(members)
	return s.change(state, &set)
}

// settle makes all CPUs use the current set. Each CPU first adds the overhead of its runs up to now, according to the previous set.
func (s *session) settle() error { return s.copyCPUs(false) }

// now returns the session's counts and misses up to now.
func (s *session) now() (*counted, missedRuns, error) {
	if s.order == 0 {
		return s.total, s.missed, nil
	}
	now, err := s.read(false)
	if err != nil {
		return nil, missedRuns{}, err
	}
	if err := s.addExtremes(now); err != nil {
		return nil, missedRuns{}, err
	}
	misses, err := s.countMisses()
	if err != nil {
		return nil, missedRuns{}, err
	}
	all := newCounted(len(now.cpus), len(now.events))
	all.grow(s.total, newCounted(len(now.cpus), len(now.events)))
	all.grow(now, s.base)
	return all, s.missed.plus(misses, s.since), nil
}

// read reads the probes' sums at the session's positions. With closed, it resets the extremes, and the result has none.
func (s *session) read(closed bool) (*counted, error) {
	if err := s.copyCPUs(closed); err != nil {
		return nil, err
	}
	var cpus []probesCopy
	if err := s.maps[probesMapCopies].Lookup(uint32(0), &cpus); err != nil {
		return nil, fmt.Errorf("read what was counted in a BPF program: %w", err)
	}
	c := newCounted(len(cpus), len(s.at))
	c.cpus = cpus
	for ev, position := range s.at {
		if position < 0 {
			continue
		}
		of, err := s.position(uint32(position))
		if err != nil {
			return nil, fmt.Errorf("read what was counted in runs of a BPF program: %w", err)
		}
		for cpu := range of {
			sum, to := &of[cpu].Sum, &c.events[ev][cpu]
			to.value, to.enabled, to.stopped = sum.Reading.Value, sum.Reading.Enabled, sum.Reading.Stopped
			to.unread, to.buckets = sum.Unread, of[cpu].Copied.Runs
			to.probes, to.unmeasured = sum.Probes, sum.Unmeasured
			if !closed {
				to.widen(sum.AboveMin, sum.Max)
			}
		}
	}
	return c, nil
}

// position reads the copy of a position, by possible CPU.
func (s *session) position(n uint32) (of []probesPosition, err error) {
	var m *ebpf.Map
	if err := s.maps[probesMapPositions].Lookup(n, &m); err != nil {
		return nil, err
	}
	defer m.Close()
	err = m.Lookup(uint32(0), &of)
	return of, err
}

// addExtremes adds the extremes between the beginnings of this session and of the last one. read has returned those since then.
func (s *session) addExtremes(c *counted) error {
	var token uint32
	var m probesMember
	entries := s.maps[probesMapMembers].Iterate()
	for entries.Next(&token, &m) {
		if m.Order < s.order {
			continue
		}
		if err := s.addExtremesOf(token, c); err != nil {
			return fmt.Errorf("read the extremes of what was counted in a BPF program: %w", err)
		}
	}
	return entries.Err()
}

func (s *session) addExtremesOf(token uint32, c *counted) error {
	m, err := s.extremesOf(token)
	if err != nil || m == nil {
		return err
	}
	defer m.Close()
	for ev, position := range s.at {
		if position < 0 {
			continue
		}
		var of []probesRange
		if err := m.Lookup(uint32(position), &of); err != nil {
			return err
		}
		for cpu := range of {
			c.events[ev][cpu].widen(of[cpu].AboveMin, of[cpu].Max)
		}
	}
	return nil
}

// finish closes the probes. The session cannot count again.
func (s *session) finish() error {
	if s.ended {
		return nil
	}
	s.ended = true
	return s.close()
}

// refreshed makes all CPUs look up their events again.
func (s *session) refreshed() error {
	state, err := s.state()
	if err != nil {
		return err
	}
	state.Version += 2
	return s.putState(state)
}

// waitIf waits, if changed, until all runs of BPF programs that have begun have ended.
func waitIf(changed bool) error {
	if !changed {
		return nil
	}
	return kernel.WaitForBPF()
}
