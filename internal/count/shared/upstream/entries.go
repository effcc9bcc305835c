package upstream

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/cilium/ebpf"

	"github.com/bperf/bperf/perfdata"
)

// entry is struct perf_event_attr_map_entry, the value in an attr map.
type entry struct {
	Link uint32 // ID of the leader's link
	Diff uint32 // ID of its map diff_readings
}

// IDs are what another process can open the leader by, as long as it lives: those of its link and of its map of differences.
func (l *Leader) IDs() (link, diff uint32, err error) {
	e, err := l.entry()
	return e.Link, e.Diff, err
}

// OpenLeader opens a leader by its IDs. The error is an fs.ErrNotExist if it is gone. Its Attr is not known.
func OpenLeader(link, diff uint32) (*Leader, error) {
	l, err := openLeader(entry{Link: link, Diff: diff})
	if errors.Is(err, errGone) {
		return nil, fmt.Errorf("%w: %w", err, fs.ErrNotExist)
	}
	return l, err
}

// Leader returns the live leader that is registered for an event, or nil. Its own Attr tells what it counts, which with a map
// of perf before 6.13 may be more or less than attr where this machine runs virtual ones. An entry of a leader that is gone
// is removed. The map has to be locked.
//
// Filters of tracepoints are no part of what a leader is registered for: an event that has one is not to be shared.
func (a *AttrMap) Leader(attr *perfdata.Attr) (*Leader, error) {
	for _, v := range a.variants(attr) {
		if l, err := a.find(&v); l != nil || err != nil {
			return l, err
		}
	}
	return nil, nil
}

// find looks for the leader of exactly this event.
func (a *AttrMap) find(attr *perfdata.Attr) (*Leader, error) {
	key, ok := a.key(attr)
	if !ok {
		return nil, nil
	}
	l, err := a.load(key)
	if err != nil || l == nil {
		return nil, err
	}
	l.attr = *attr
	return l, nil
}

// Registered reports whether there is a live leader for an event. It changes nothing, and the map need not be locked.
func (a *AttrMap) Registered(attr *perfdata.Attr) (bool, error) {
	for _, v := range a.variants(attr) {
		key, ok := a.key(&v)
		if !ok {
			continue
		}
		var e entry
		err := a.m.Lookup(key, &e)
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			continue
		}
		if err != nil {
			return false, fmt.Errorf("read the attr map %s: %w", a.path, errnoOf(err))
		}
		l, err := openLeader(e)
		if err == nil {
			return true, l.Close()
		}
		if !errors.Is(err, errGone) {
			return false, a.leaderError(err)
		}
	}
	return false, nil
}

// load returns the live leader behind a key, or nil; then the key is removed.
func (a *AttrMap) load(key []byte) (*Leader, error) {
	var e entry
	err := a.m.Lookup(key, &e)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the attr map %s: %w", a.path, errnoOf(err))
	}
	l, err := openLeader(e)
	if !errors.Is(err, errGone) {
		return l, a.leaderError(err)
	}
	if err := a.m.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil, fmt.Errorf("remove the entry of a leader that is gone from the attr map %s: %w", a.path, errnoOf(err))
	}
	return nil, nil
}

func (a *AttrMap) leaderError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("use a leader that is registered in the attr map %s: %w", a.path, err)
}

// Register lets others find a leader: as the one for its Attr, in place of any that was. Entries of leaders that are gone
// are removed before, all of them: perf does not do that, and once the map is full it shares nothing any more. The map
// has to be locked.
func (a *AttrMap) Register(l *Leader) error {
	key, ok := a.key(&l.attr)
	if !ok {
		return fmt.Errorf("register a leader in the attr map %s: the event needs a field of struct perf_event_attr that perf did not have "+
			"when it made the map (its keys have %d bytes). Use another path", a.path, a.keySize)
	}
	e, err := l.entry()
	if err != nil {
		return fmt.Errorf("register a leader in the attr map %s: %w", a.path, err)
	}
	if err := a.sweep(); err != nil {
		return err
	}
	err = a.m.Put(key, e)
	if errors.Is(err, syscall.E2BIG) {
		return fmt.Errorf("register a leader in the attr map %s: it is full: %d other events are being shared. "+
			"Use another path, or end sessions that count other events", a.path, a.m.MaxEntries())
	}
	if err != nil {
		return fmt.Errorf("register a leader in the attr map %s: %w", a.path, errnoOf(err))
	}
	return nil
}

// sweep removes all entries of leaders that are gone.
func (a *AttrMap) sweep() error {
	keys, err := a.keys()
	if err != nil {
		return err
	}
	for _, key := range keys {
		l, err := a.load(key)
		if err != nil && !errors.Is(err, errLayout) {
			return err
		}
		if l != nil {
			l.Close()
		}
	}
	return nil
}

// keys returns the keys of all entries.
func (a *AttrMap) keys() ([][]byte, error) {
	var keys [][]byte
	var key []byte
	var e entry
	entries := a.m.Iterate()
	for entries.Next(&key, &e) {
		keys = append(keys, bytes.Clone(key))
	}
	if err := entries.Err(); err != nil {
		return nil, fmt.Errorf("read the attr map %s: %w", a.path, errnoOf(err))
	}
	return keys, nil
}
