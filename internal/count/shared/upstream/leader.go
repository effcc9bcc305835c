package upstream

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/bperf/bperf/internal/kernel"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/perfdata"
)

// Names in the layout.
const (
	programName = "on_switch" // followers attach to it by this name
	prevName    = "prev_readings"
)

// Leader is a program that reads one event's counters at each context switch. It lives until all processes have closed it.
type Leader struct {
	attr    perfdata.Attr
	link    link.Link
	program *ebpf.Program
	prev    *ebpf.Map
	diff    *ebpf.Map
	events  *ebpf.Map // nil for a leader that another process started
}

var (
	errGone   = errors.New("the leader is gone")
	errLayout = errors.New("its program is not laid out as bperf knows it")
)

// openLeader opens a leader by its IDs. The error is errGone if the leader is gone, even if the kernel has reused its IDs for other
// objects.
func openLeader(e entry) (_ *Leader, err error) {
	l := &Leader{}
	defer func() {
		if err != nil {
			l.Close()
		}
	}()
	if l.link, err = link.NewFromID(link.ID(e.Link)); err != nil {
		return nil, byID("link", e.Link, err)
	}
	info, err := l.link.Info()
	if err != nil {
		return nil, fmt.Errorf("look at BPF link %d: %w", e.Link, errnoOf(err))
	}
	if info.Type != link.RawTracepointType {
		return nil, errGone
	}
	if l.program, err = ebpf.NewProgramFromID(info.Program); err != nil {
		return nil, byID("program", uint32(info.Program), err)
	}
	if err := l.openMaps(ebpf.MapID(e.Diff)); err != nil {
		return nil, err
	}
	return l, nil
}

// openMaps opens the program's maps. It returns errGone if the map of differences is not one of them.
func (l *Leader) openMaps(diff ebpf.MapID) error {
	info, err := l.program.Info()
	if err != nil {
		return fmt.Errorf("look at a BPF program: %w", errnoOf(err))
	}
	maps, _ := info.MapIDs() // since Linux 4.15
	if !slices.Contains(maps, diff) {
		return errGone
	}
	for _, id := range maps {
		m, err := ebpf.NewMapFromID(id)
		if err != nil {
			return byID("map", uint32(id), err)
		}
		switch about, err := m.Info(); {
		case err != nil:
			m.Close()
			return fmt.Errorf("look at BPF map %d: %w", id, errnoOf(err))
		case id == diff && isReadings(m):
			l.diff = m
		case about.Name == prevName && isReadings(m):
			l.prev = m
		default:
			m.Close()
		}
	}
	if info.Name != programName || l.diff == nil || l.prev == nil {
		return fmt.Errorf("%w (program %q)", errLayout, info.Name)
	}
	return nil
}

// isReadings reports whether a map has one struct bpf_perf_event_value for each CPU. A perfevent.Reading has the same layout.
func isReadings(m *ebpf.Map) bool {
	return m.Type() == ebpf.PerCPUArray && m.KeySize() == 4 && m.ValueSize() == 24
}

// byID explains an error of opening an object by its ID.
func byID(kind string, id uint32, err error) error {
	switch {
	case errors.Is(err, syscall.ENOENT):
		return errGone
	case errors.Is(err, syscall.EPERM):
		return fmt.Errorf("get BPF %s %d: %w. %s", kind, id, errnoOf(err), needsAdmin)
	}
	return fmt.Errorf("get BPF %s %d: %w", kind, id, errnoOf(err))
}

// StartLeader starts a leader that counts attr with these events, by CPU. They must be enabled and count whole CPUs. The leader
// keeps them open as long as it lives, so the caller can close them.
func StartLeader(attr *perfdata.Attr, events map[int]*perfevent.Event) (_ *Leader, err error) {
	var o leaderObjects
	if err := loadLeaderObjects(&o, nil); err != nil {
		return nil, startError("load the leader's program", err)
	}
	l := &Leader{attr: *attr, program: o.OnSwitch, prev: o.PrevReadings, diff: o.DiffReadings, events: o.Events}
	defer func() {
		if err != nil {
			l.Close()
		}
	}()
	for cpu, e := range events {
		if err := l.SetEvent(cpu, e); err != nil {
			return nil, err
		}
	}
	l.link, err = link.AttachRawTracepoint(link.RawTracepointOptions{Name: "sched_switch", Program: l.program})
	if err != nil {
		return nil, startError("attach the leader's program to sched_switch", err)
	}
	return l, nil
}

func startError(what string, err error) error {
	if errors.Is(err, syscall.EPERM) {
		return fmt.Errorf("%s: %w. %s", what, errnoOf(err), needsAdmin)
	}
	return fmt.Errorf("%s: %w", what, errnoOf(err))
}

// SetEvent makes a leader of this process count a CPU with an enabled event of the whole CPU, for example after the CPU came online.
// Existing followers get the event's count since it was opened.
func (l *Leader) SetEvent(cpu int, e *perfevent.Event) error {
	err := l.events.Delete(uint32(cpu))
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("take the last event of CPU %d from a leader: %w", cpu, errnoOf(err))
	}
	if err := l.Run(cpu); err != nil { // without an event, the leader resets its last reading
		return err
	}
	if err := l.events.Put(uint32(cpu), uint32(e.FD())); err != nil {
		return fmt.Errorf("give a leader the event of CPU %d: %w", cpu, errnoOf(err))
	}
	return l.Run(cpu)
}

// entry returns the leader's value in an attr map.
func (l *Leader) entry() (entry, error) {
	about, err := l.link.Info()
	if err != nil {
		return entry{}, fmt.Errorf("look at its link: %w", errnoOf(err))
	}
	diff, err := l.diff.Info()
	if err != nil {
		return entry{}, fmt.Errorf("look at its map: %w", errnoOf(err))
	}
	id, _ := diff.ID()
	return entry{Link: uint32(about.ID), Diff: uint32(id)}, nil
}

// Run runs the leader on a CPU, so that followers get the count up to now. The error wraps syscall.ENXIO if the CPU is offline.
//
// Nothing can interrupt the run, with one exception: if the caller is on that CPU, the Run of another process can interrupt it and
// pass on the same growth twice.
func (l *Leader) Run(cpu int) error {
	_, err := kernel.RunOnCPU(l.program, cpu, nil)
	if errors.Is(err, syscall.ENXIO) {
		return fmt.Errorf("run the leader of a shared event on CPU %d, which is offline: %w", cpu, syscall.ENXIO)
	}
	if err != nil {
		return fmt.Errorf("run the leader of a shared event on CPU %d: %w", cpu, errnoOf(err))
	}
	return nil
}

// Covers reports whether the leader counts on all of these CPUs. A leader may have been started for only some. Covers
// checks whether the event's time enabled grows on each CPU.
func (l *Leader) Covers(cpus []int) (bool, error) {
	before, err := l.enabled(cpus)
	if err != nil {
		return false, err
	}
	after, err := l.enabled(cpus)
	if err != nil {
		return false, err
	}
	for i := range cpus {
		if after[i] <= before[i] {
			return false, nil
		}
	}
	return true, nil
}

// enabled returns the event's time enabled up to now, in ns, for each of these CPUs.
func (l *Leader) enabled(cpus []int) ([]uint64, error) {
	for _, cpu := range cpus {
		if err := l.Run(cpu); err != nil {
			return nil, err
		}
	}
	var all []perfevent.Reading // by CPU
	if err := l.prev.Lookup(uint32(0), &all); err != nil {
		return nil, fmt.Errorf("read what a shared event has counted: %w", errnoOf(err))
	}
	times := make([]uint64, len(cpus))
	for i, cpu := range cpus {
		times[i] = all[cpu].Enabled
	}
	return times, nil
}

// Attr returns the event that the leader counts. It is zero for a leader from OpenLeader.
func (l *Leader) Attr() perfdata.Attr { return l.attr }

// Program returns the program that followers attach to.
func (l *Leader) Program() *ebpf.Program { return l.program }

// Prev returns the map with the leader's last reading: a per-CPU array of one perfevent.Reading.
func (l *Leader) Prev() *ebpf.Map { return l.prev }

// Diff returns the map with the growth between the leader's last two readings, for its followers: a per-CPU
// array of one perfevent.Reading.
func (l *Leader) Diff() *ebpf.Map { return l.diff }

// Close closes this process's descriptors of the leader.
func (l *Leader) Close() error {
	var errs error
	if l.link != nil {
		errs = l.link.Close()
	}
	// Close of a nil program or map does nothing.
	return cmp.Or(errs, l.program.Close(), l.prev.Close(), l.diff.Close(), l.events.Close())
}
