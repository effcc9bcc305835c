package shared

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/bperf/bperf/internal/count/shared/upstream"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/perfdata"
)

// followed is an event that no counter of ours counts, but that of a leader in the layout of upstream perf.
type followed struct {
	leader *upstream.Leader
	link   link.Link // of the program that adds up what it counts for tasks and cgroups; nil if none are counted
}

func (f *followed) close() error {
	err := f.leader.Close()
	if f.link != nil {
		err = errors.Join(err, f.link.Close())
	}
	return err
}

// run brings up to date what the leader has counted on CPUs, as far as they are online.
func (f *followed) run(cpus []int) error {
	for _, cpu := range cpus {
		if err := f.leader.Run(cpu); err != nil && !errors.Is(err, syscall.ENXIO) {
			return err
		}
	}
	return nil
}

// readings are what the leader has counted up to now, by CPU.
func (f *followed) readings() ([]perfevent.Reading, error) {
	var all []perfevent.Reading
	if err := f.leader.Prev().Lookup(uint32(0), &all); err != nil {
		return nil, fmt.Errorf("read what an upstream leader has counted: %w", err)
	}
	return all, nil
}

// canFollow reports whether a leader can count an event for us: those that count the switch themselves it gives to the wrong
// task, and filters are nothing that it knows of.
func canFollow(k key) bool {
	counts := k.attr.Type == perfdata.TypeSoftware &&
		(k.attr.Config == perfdata.SoftwareContextSwitches || k.attr.Config == perfdata.SoftwareCgroupSwitches)
	return !counts && k.filter == ""
}

// openAttrMap opens the map of perf's sessions; nil if there is none. What else there may be in its place is nobody's concern who has not asked
// to share with perf.
func openAttrMap(path string) (*upstream.AttrMap, error) {
	if path == "" {
		return nil, nil
	}
	attrs, err := upstream.Open(path)
	var unknown *upstream.UnknownError
	if errors.Is(err, fs.ErrNotExist) || errors.As(err, &unknown) {
		return nil, nil
	}
	return attrs, err
}

// countedApart reports for each event of the table whether sessions of perf count it with a counter of their own.
func (s *slots) countedApart(attrMap string) ([]bool, error) {
	apart := make([]bool, len(s.table))
	attrs, err := openAttrMap(attrMap)
	if attrs == nil || err != nil {
		return apart, err
	}
	defer attrs.Close()
	for i := range s.table {
		slot := &s.table[i]
		k := key{slot.attr(), text(slot.Filter[:])}
		if slot.used() && slot.Leader == 0 && canFollow(k) {
			if apart[i], err = attrs.Registered(&k.attr); err != nil {
				return nil, err
			}
		}
	}
	return apart, nil
}

// findLeader looks for a live upstream leader that counts an event on all of these CPUs; nil if there is none.
func findLeader(path string, k key, cpus []int) (*upstream.Leader, error) {
	attrs, err := openAttrMap(path)
	if attrs == nil || err != nil {
		return nil, err
	}
	defer attrs.Close() // and unlocks it
	if err := attrs.Lock(); err != nil {
		return nil, err
	}
	l, err := attrs.Leader(&k.attr)
	if l == nil || err != nil {
		return nil, err
	}
	return covering(l, cpus)
}

// covering closes a leader that does not count on all of these CPUs, and returns nil in its place.
func covering(l *upstream.Leader, cpus []int) (*upstream.Leader, error) {
	covers, err := l.Covers(cpus)
	if err == nil && covers {
		return l, nil
	}
	return nil, errors.Join(err, l.Close())
}

// lead finds or starts a leader for an event and registers it where upstream perf finds it.
func lead(path string, k key, cpus []int) (*upstream.Leader, error) {
	attrs, err := upstream.Create(path)
	if err != nil {
		return nil, err
	}
	defer attrs.Close() // and unlocks it
	if err := attrs.Lock(); err != nil {
		return nil, err
	}
	l, err := attrs.Leader(&k.attr)
	if err != nil {
		return nil, err
	}
	if l != nil {
		if l, err = covering(l, cpus); l != nil || err != nil {
			return l, err
		}
	}
	attr := attrs.Attr(&k.attr)
	events := make(map[int]*perfevent.Event)
	defer func() { // the leader holds them
		for _, e := range events {
			e.Close()
		}
	}()
	for _, cpu := range cpus {
		if events[cpu], err = perfevent.Open(&attr, perfevent.Where{Thread: perfevent.AnyThread, CPU: cpu}); err != nil {
			delete(events, cpu)
			return nil, err
		}
	}
	if l, err = upstream.StartLeader(&attr, events); err != nil {
		return nil, err
	}
	if err := attrs.Register(l); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// attachFollower lets the growth of a leader's counter be added to the sums of the nodes that count the event.
func (o *objects) attachFollower(l *upstream.Leader, slot int, cgroupV1 bool) (link.Link, uint32, error) {
	spec, err := programSpecs(cgroupV1)
	if err != nil {
		return nil, 0, err
	}
	if err := spec.Variables[countersVarFollowedEvent].Set(uint32(slot)); err != nil {
		return nil, 0, err
	}
	values, err := newConstants(spec)
	if err != nil {
		return nil, 0, err
	}
	defer values.Close()
	program := spec.Programs[countersProgOnLeader]
	program.AttachTarget = l.Program()
	loaded, err := o.loadPrograms(map[string]*ebpf.ProgramSpec{countersProgOnLeader: program},
		map[string]*ebpf.Map{constants: values, countersMapLeaderDiff: l.Diff()})
	if errors.Is(err, syscall.EPERM) {
		return nil, 0, fmt.Errorf("follow an upstream leader: %w: this kernel refuses fexit programs, without which nobody can. "+
			"Sessions of bperf share counters without them: leave out --bpf-attr-map, or the configuration's stat.bpf-attr-map", syscall.EPERM)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("follow an upstream leader: %w", err)
	}
	p := loaded[countersProgOnLeader]
	defer p.Close()
	attached, err := link.AttachTracing(link.TracingOptions{Program: p})
	if err != nil {
		return nil, 0, fmt.Errorf("follow an upstream leader: attach the BPF program %s: %w", countersProgOnLeader, err)
	}
	info, err := attached.Info()
	if err != nil {
		return nil, 0, errors.Join(err, attached.Close())
	}
	return attached, uint32(info.ID), nil
}
