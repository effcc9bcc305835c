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

// followed is an event that a leader in the layout of upstream perf counts, instead of a slot's own perf events.
type followed struct {
	leader *upstream.Leader
	link   link.Link // of the follower, which adds the leader's counts to the nodes; nil if the session needs none
}

// followers has the followed events of a session, by slot.
type followers map[int]*followed

// run runs the leaders on these CPUs, which updates their counts.
func (all followers) run(cpus []int) error {
	for _, f := range all {
		if err := f.run(cpus); err != nil {
			return err
		}
	}
	return nil
}

func (all followers) close() error {
	var errs []error
	for _, f := range all {
		errs = append(errs, f.close())
	}
	return errors.Join(errs...)
}

func (f *followed) close() error {
	err := f.leader.Close()
	if f.link != nil {
		err = errors.Join(err, f.link.Close())
	}
	return err
}

// run runs the leader on these CPUs, which updates its counts. It skips offline CPUs.
func (f *followed) run(cpus []int) error {
	for _, cpu := range cpus {
		if err := f.leader.Run(cpu); err != nil && !errors.Is(err, syscall.ENXIO) {
			return err
		}
	}
	return nil
}

// readings returns the leader's last readings, by CPU.
func (f *followed) readings() ([]perfevent.Reading, error) {
	var all []perfevent.Reading
	if err := f.leader.Prev().Lookup(uint32(0), &all); err != nil {
		return nil, fmt.Errorf("read what an upstream leader has counted: %w", err)
	}
	return all, nil
}

// canFollow reports whether a leader can count an event. It would attribute events that count context switches to the wrong
// task, and it does not support filters.
func canFollow(k key) bool {
	counts := k.attr.Type == perfdata.TypeSoftware &&
		(k.attr.Config == perfdata.SoftwareContextSwitches || k.attr.Config == perfdata.SoftwareCgroupSwitches)
	return !counts && k.filter == ""
}

// openAttrMap opens the map of perf's sessions. It returns nil if there is none, or if something else is in its place: only a session that leads
// for perf must report that.
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

// countedApart reports for each slot whether sessions of perf count its event with a counter of their own.
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

// findLeader returns the live upstream leader that counts an event on all of these CPUs, or nil.
func findLeader(path string, k key, cpus []int) (*upstream.Leader, error) {
	attrs, err := openAttrMap(path)
	if attrs == nil || err != nil {
		return nil, err
	}
	defer attrs.Close() // also unlocks it
	if err := attrs.Lock(); err != nil {
		return nil, err
	}
	l, err := attrs.Leader(&k.attr)
	if l == nil || err != nil {
		return nil, err
	}
	return covering(l, cpus)
}

// covering returns l if it counts on all of these CPUs. Otherwise it closes l and returns nil.
func covering(l *upstream.Leader, cpus []int) (*upstream.Leader, error) {
	covers, err := l.Covers(cpus)
	if err == nil && covers {
		return l, nil
	}
	return nil, errors.Join(err, l.Close())
}

// lead finds a leader for an event, or starts one and registers it in perf's map.
func lead(path string, k key, cpus []int) (*upstream.Leader, error) {
	attrs, err := upstream.Create(path)
	if err != nil {
		return nil, err
	}
	defer attrs.Close() // also unlocks it
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
	defer func() { // the leader keeps them open
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

// attachFollower attaches a follower, which adds the growth of a leader's counter to the sums of the nodes that count the event. It
// returns the follower's link and its ID.
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
