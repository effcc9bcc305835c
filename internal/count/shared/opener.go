package shared

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/cilium/ebpf/link"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/count/direct"
	"github.com/bperf/bperf/internal/count/shared/upstream"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/perfevent"
)

// opener finds or opens the events of a session that begins. Its caller holds the lock.
type opener struct {
	*plan
	slots    *slots
	followed followers // of the session
}

// openEvent finds or opens an event. The error of an event that cannot be counted is in the result.
func (p *opener) openEvent(e *event.Event) (counted, error) {
	if reason := unshareable(e); reason != nil {
		return counted{err: reason}, nil
	}
	cpus, err := direct.SelectCPUs(e, p.target)
	var unsupported *count.Unsupported
	if errors.As(err, &unsupported) {
		return counted{err: unsupported}, nil
	}
	if err != nil {
		return counted{}, err
	}
	if cpus == nil {
		cpus = p.cpus
	}
	where, err := p.opensOn(e, cpus)
	if err != nil {
		return counted{}, err
	}
	if len(where) == 0 {
		return counted{err: &count.Unsupported{Event: e, Err: syscall.ENODEV, Reason: "All CPUs that could count it are offline."}}, nil
	}
	slot, err := p.openSlot(e, where)
	if err != nil {
		reason, fatal := direct.Explain(e, perfevent.AnyThread, where[0], p.target, p.options.Options, err)
		return counted{err: reason}, fatal
	}
	opens := cpus
	if p.units {
		opens = e.CPUs
	}
	return counted{slot: slot, cpus: cpus, opens: opens}, nil
}

// openSlot returns the slot that counts an event on these CPUs, or makes one. A new slot follows an upstream leader that already counts
// the event, follows a leader that openSlot starts for upstream perf, or has perf events that only bperf shares.
func (p *opener) openSlot(e *event.Event, cpus []int) (int, error) {
	k := keyOf(e, p.options.AllUser, p.options.AllKernel)
	for _, slot := range p.slots.find(k) {
		if p.where.Unled && p.slots.table[slot].Leader != 0 {
			continue
		}
		ok, err := p.joinSlot(slot, cpus)
		if ok || err != nil {
			return slot, err
		}
	}
	var l *upstream.Leader
	var err error
	switch {
	case p.where.Unled, !canFollow(k):
	case p.where.Lead:
		l, err = lead(p.where.AttrMap, k, cpus)
	default:
		l, err = findLeader(p.where.AttrMap, k, cpus)
	}
	if err != nil {
		return 0, err
	}
	slot, err := p.slots.add(k, e)
	if err != nil {
		return 0, err
	}
	if l == nil {
		return slot, p.slots.openFirst(slot, cpus)
	}
	err = p.follow(slot, l)
	if err != nil && p.where.Lead {
		return slot, errors.Join(err, upstream.RemoveEmpty(p.where.AttrMap))
	}
	if err == nil {
		return slot, nil
	}
	p.slots.table[slot].Leader = 0 // the kernel does not allow followers, so open own perf events
	return slot, p.slots.openFirst(slot, cpus)
}

// joinSlot shares an existing slot. It reports false if the slot has a leader that is gone or does not count on all of these CPUs.
func (p *opener) joinSlot(slot int, cpus []int) (bool, error) {
	if p.followed[slot] != nil {
		return true, nil
	}
	known := &p.slots.table[slot]
	if known.Leader == 0 {
		return true, p.slots.open(slot, cpus)
	}
	l, err := upstream.OpenLeader(known.Leader, known.Diff)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		l, err = covering(l, cpus)
	}
	if l == nil || err != nil {
		return false, err
	}
	return true, p.follow(slot, l)
}

// follow makes a slot count with an upstream leader.
func (p *opener) follow(slot int, l *upstream.Leader) error {
	f := &followed{leader: l}
	known := &p.slots.table[slot]
	var err error
	if known.Leader, known.Diff, err = l.IDs(); err != nil {
		return errors.Join(err, f.close())
	}
	if p.units || p.where.Lead { // with Lead, attach a follower even for CPUs: it proves that others can follow
		if f.link, err = link.NewFromID(link.ID(known.Follower)); err != nil {
			f.link, known.Follower, err = p.slots.o.attachFollower(l, slot, p.cgroupV1)
		}
	}
	if err == nil {
		err = p.slots.put(slot)
	}
	if err != nil {
		return errors.Join(err, f.close())
	}
	p.followed[slot] = f
	return nil
}

// unshareable returns why an event cannot be shared, or nil.
func unshareable(e *event.Event) error {
	switch {
	case e.Tracepoint == "sched:sched_switch":
		return &count.Unsupported{Event: e, Err: syscall.EOPNOTSUPP,
			Reason: "It takes place when shared counts pass from one task to the next, and could be either's.",
			Remedy: "Count it without the modifier b and --bpf-counters."}
	case len(e.Filter) >= len(countersSlot{}.Filter):
		return &count.Unsupported{Event: e, Err: syscall.EOPNOTSUPP,
			Reason: fmt.Sprintf("Its filter has %d bytes: shared events have room for %d.", len(e.Filter), len(countersSlot{}.Filter)-1),
			Remedy: "Count it without the modifier b and --bpf-counters."}
	}
	return nil
}
