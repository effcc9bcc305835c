package program

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
)

// maxEvents is how many a session can have.
const maxEvents = 64

// probes are the programs at the entry and the exit of a target.
type probes struct {
	objects *ebpf.Collection
	links   []link.Link

	last *counted // what they counted; nil as long as they are attached

	misses Misses // since the session counts
	since  Misses // their numbers at the last Enable
}

// Misses are how often the kernel did not run a probe, as it ran on that CPU already.
type Misses struct {
	Entry, Exit uint64
}

// options are what all probes of a session have in common.
type options struct {
	object  *ebpf.CollectionSpec // the programs and maps, as they were compiled
	events  *ebpf.Map            // descriptors of perf events, by CPU and event
	count   int                  // events
	partial uint64               // events that not all CPUs have, one bit each
	memory  uint64               // events that the kernel counts in memory, one bit each

	withTimes bool // events are always read with their times

	types *btf.Cache // the kernel's: decoding them takes longer than the rest of attach; nil not to keep them

	// What is taken off each run, by event.
	overhead, overheadWithTimes [maxEvents]uint64
}

// noWindow is the number of none. It is not 0, which CPUs take for theirs in the beginning.
const noWindow = 2

// attach attaches the probes to a program. They count in a window, or with noWindow nothing yet.
func attach(t Target, o options, window uint64) (*probes, error) {
	if u := t.traceable(); u != nil {
		return nil, u
	}
	target, err := ebpf.NewProgramFromID(ebpf.ProgramID(t.ID))
	if err != nil {
		return nil, fmt.Errorf("open BPF program %s: %w", t, err)
	}
	defer target.Close()
	spec, err := probeSpecs(o)
	if err != nil {
		return nil, err
	}
	if err := spec.Variables[probesVarWindow].Set(window); err != nil {
		return nil, err
	}
	for _, p := range spec.Programs {
		p.AttachTarget, p.AttachTo = target, t.Function
	}
	p := new(probes)
	if p.objects, err = ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{Cache: o.types}); err != nil {
		return nil, t.untraceable(err)
	}
	// The exit first: a run that both have seen is one that the entry has seen.
	for _, name := range []string{probesProgBperfExit, probesProgBperfEntry} {
		l, err := link.AttachTracing(link.TracingOptions{Program: p.objects.Programs[name]})
		if err != nil {
			p.close()
			return nil, t.unattachable(err)
		}
		p.links = append(p.links, l)
	}
	return p, nil
}

// unattachable puts the kernel's refusal to attach loaded probes into words.
func (t Target) unattachable(err error) *Untraceable {
	if errors.Is(err, syscall.E2BIG) {
		return &Untraceable{Target: t, Err: err, Reason: "As many tracing programs are attached to it as the kernel allows. " +
			"A session of bperf takes two, one of perf two for each event; `bperf prog list` shows them."}
	}
	return t.untraceable(err)
}

// As in bpf/probes.bpf.c.
const (
	shortEvents = 16
	inMemory    = 0x100
	calibrated  = 0x200
)

// probeSpecs are the programs and maps for a session.
func probeSpecs(o options) (*ebpf.CollectionSpec, error) {
	spec := o.object.Copy()
	// The library would make a map of its own, with room for one event.
	delete(spec.Maps, probesMapEvents)
	for _, p := range spec.Programs {
		for i := range p.Instructions {
			if ins := &p.Instructions[i]; ins.IsLoadFromMap() && ins.Reference() == probesMapEvents {
				if err := ins.AssociateMap(o.events); err != nil {
					return nil, err
				}
			}
		}
	}
	var withTimes uint32
	if o.withTimes {
		withTimes = 1
	}
	var session uint64
	if o.count <= shortEvents {
		session = uint64(o.count)
	}
	if o.memory != 0 {
		session |= inMemory
	}
	if o.overhead != [maxEvents]uint64{} || o.overheadWithTimes != [maxEvents]uint64{} {
		session |= calibrated
	}
	spec.Maps[probesMapHistograms].MaxEntries = uint32(max(o.count, 1))
	return spec, errors.Join(
		spec.Variables[probesVarNrEvents].Set(uint32(o.count)),
		spec.Variables[probesVarPartialEvents].Set(o.partial),
		spec.Variables[probesVarMemoryEvents].Set(o.memory),
		spec.Variables[probesVarSession].Set(session),
		spec.Variables[probesVarOverhead].Set(o.overhead),
		spec.Variables[probesVarOverheadWithTimes].Set(o.overheadWithTimes),
		spec.Variables[probesVarWithTimes].Set(withTimes))
}

// setWindow begins a window with an odd number, and ends it with an even one.
func (p *probes) setWindow(number uint64) error {
	return p.objects.Variables[probesVarWindow].Set(number)
}

func (p *probes) countMisses() (m Misses, err error) {
	for name, n := range map[string]*uint64{probesProgBperfEntry: &m.Entry, probesProgBperfExit: &m.Exit} {
		s, err := p.objects.Programs[name].Stats()
		if err != nil {
			return m, fmt.Errorf("read the statistics of the BPF program %s: %w", name, err)
		}
		*n = s.RecursionMisses
	}
	return m, nil
}

// counted is what the probes of a program counted, by possible CPU.
type counted struct {
	state      []probesCpu
	histograms [][]probesHistogram
}

// read reads what was counted, by possible CPU.
func (p *probes) read() (state []probesCpu, histograms [][]probesHistogram, err error) {
	if p.last != nil {
		return p.last.state, p.last.histograms, nil
	}
	if err := p.objects.Maps[probesMapCpus].Lookup(uint32(0), &state); err != nil {
		return nil, nil, fmt.Errorf("read what was counted in a BPF program: %w", err)
	}
	m := p.objects.Maps[probesMapHistograms]
	histograms = make([][]probesHistogram, m.MaxEntries())
	for i := range histograms {
		if err := m.Lookup(uint32(i), &histograms[i]); err != nil {
			return nil, nil, fmt.Errorf("read what was counted in runs of a BPF program: %w", err)
		}
	}
	return state, histograms, nil
}

func (p *probes) close() error {
	if p.last != nil {
		return nil
	}
	var errs []error
	for _, l := range p.links {
		errs = append(errs, l.Close())
	}
	p.objects.Close()
	return errors.Join(errs...)
}
