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

// IDs returns the IDs of the leader's link and of its map of differences. Another process can open the leader with them while it lives.
func (l *Leader) IDs() (link, diff uint32, err error) {
	e, err := l.entry()
	return e.Link, e.Diff, err
}

// OpenLeader opens a leader by its IDs. The error wraps fs.ErrNotExist if it is gone. The leader's Attr is unknown.
func OpenLeader(link, diff uint32) (*Leader, error) {
	l, err := openLeader(entry{Link: link, Diff: diff})
	if errors.Is(err, errGone) {
		return nil, fmt.Errorf("%w: %w", err, fs.ErrNotExist)
	}
	return l, err
}

// Leader returns the live leader that is registered for an event, or nil. The leader's own Attr is the event that it counts. With a map
// of perf before 6.13, it may include or exclude virtual machines where attr does not. Leader removes the entry of a leader that is
// gone. The map must be locked.
//
// The attr map does not contain tracepoint filters, so an event with a filter must not be shared.
func (a *AttrMap) Leader(attr *perfdata.Attr) (*Leader, error) {
	for _, v := range a.variants(attr) {
		if l, err := a.find(&v); l != nil || err != nil {
			return l, err
		}
	}
	return nil, nil
}

// find returns the live leader that is registered for exactly this event, or nil.
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

// Registered reports whether there is a live leader for an event. It changes nothing and does not need the lock.
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

// load returns the live leader of a key. If the leader is gone, load removes the key and returns nil.
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

// Register registers a leader for its Attr and replaces an existing one. Before that it removes all entries of leaders that are gone,
// because perf does not, and cannot share new events once the map is full. The map must be locked.
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
