package program

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"

	"github.com/bperf/bperf/internal/count/direct"
	"github.com/bperf/bperf/internal/count/shared"
	"github.com/bperf/bperf/internal/kernel"
)

// maxEvents is the maximum number of events of a session, and of all sessions in one program together.
const maxEvents = 64

// sharedMaps has the maps of a function's probes, which all of its sessions have open.
var sharedMaps = [...]string{mapState, probesMapCopies, probesMapPositions, probesMapExtremes, probesMapMembers}

// mapState is the section with the variable state.
const mapState = ".data.state"

// probePrograms has the programs of a function's probes.
var probePrograms = [...]string{probesProgBperfExit, probesProgBperfEntry, probesProgBperfRead}

// probes has the programs at the entry and the exit of a function, and their maps. All sessions in the function share them.
type probes struct {
	maps     map[string]*ebpf.Map
	programs map[string]*ebpf.Program
	links    [2]link.Link // at the exit, at the entry
	offline  map[int]bool // CPUs that were read after they went offline
}

func newProbes() *probes {
	return &probes{maps: make(map[string]*ebpf.Map), programs: make(map[string]*ebpf.Program), offline: make(map[int]bool)}
}

// attach loads probes and attaches them to a function. The error is an *Untraceable if the function cannot be traced.
func attach(t Target, object *ebpf.CollectionSpec, events *ebpf.Map, types *btf.Cache) (*probes, error) {
	if u := t.traceable(); u != nil {
		return nil, u
	}
	target, err := ebpf.NewProgramFromID(ebpf.ProgramID(t.ID))
	if err != nil {
		return nil, fmt.Errorf("open BPF program %s: %w", t, err)
	}
	defer target.Close()
	spec, err := probeSpecs(object, events)
	if err != nil {
		return nil, err
	}
	if err := kernel.DropMissing(spec.Programs, "bpf_rdonly_cast", types); err != nil {
		return nil, err
	}
	for _, name := range probePrograms[:2] {
		spec.Programs[name].AttachTarget, spec.Programs[name].AttachTo = target, t.Function
	}
	objects, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{Cache: types})
	if err != nil {
		return nil, t.untraceable(err)
	}
	defer objects.Close() // closes everything except the detached maps and programs
	p := newProbes()
	for _, name := range sharedMaps {
		p.maps[name] = objects.DetachMap(name)
	}
	for _, name := range probePrograms {
		p.programs[name] = objects.DetachProgram(name)
	}
	// The exit probe first: then the exit probe sees every run that the entry probe has seen.
	for i, name := range probePrograms[:2] {
		if p.links[i], err = link.AttachTracing(link.TracingOptions{Program: p.programs[name]}); err != nil {
			return nil, errors.Join(t.unattachable(err), p.close())
		}
	}
	return p, nil
}

// probeSpecs returns a copy of the compiled probes that reads these events.
func probeSpecs(object *ebpf.CollectionSpec, events *ebpf.Map) (*ebpf.CollectionSpec, error) {
	spec := object.Copy()
	delete(spec.Maps, probesMapEvents)
	if err := direct.UseMaps(spec.Programs, map[string]*ebpf.Map{probesMapEvents: events}); err != nil {
		return nil, err
	}
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, err
	}
	return spec, spec.Variables[probesVarNrCpus].Set(uint32(cpus))
}

// openProbes opens the probes of another session. The error wraps fs.ErrNotExist if no session has them open.
func openProbes(ids probeIDs) (*probes, error) {
	p := newProbes()
	if err := p.open(ids); err != nil {
		return nil, errors.Join(fmt.Errorf("open the probes of another session: %w", err), p.close())
	}
	return p, nil
}

func (p *probes) open(ids probeIDs) (err error) {
	for i, name := range sharedMaps {
		m, err := ebpf.NewMapFromID(ebpf.MapID(ids.Maps[i]))
		if err != nil {
			return err
		}
		p.maps[name] = m
	}
	for i, name := range probePrograms {
		program, err := ebpf.NewProgramFromID(ebpf.ProgramID(ids.Programs[i]))
		if err != nil {
			return err
		}
		p.programs[name] = program
	}
	for i := range p.links {
		if p.links[i], err = link.NewFromID(link.ID(ids.Links[i])); err != nil {
			return err
		}
	}
	return nil
}

// ids returns the IDs by which other sessions can open the probes.
func (p *probes) ids() (ids probeIDs, err error) {
	for i, name := range sharedMaps {
		if ids.Maps[i], err = shared.MapID(p.maps[name]); err != nil {
			return ids, err
		}
	}
	for i, name := range probePrograms {
		if ids.Programs[i], err = shared.ProgramID(p.programs[name]); err != nil {
			return ids, err
		}
	}
	for i, l := range p.links {
		info, err := l.Info()
		if err != nil {
			return ids, err
		}
		ids.Links[i] = uint32(info.ID)
	}
	return ids, nil
}

// close closes the probes. The kernel detaches them when no session has them open.
func (p *probes) close() error {
	var errs []error
	for _, l := range p.links {
		if l != nil {
			errs = append(errs, l.Close())
		}
	}
	for _, program := range p.programs {
		errs = append(errs, program.Close())
	}
	for _, m := range p.maps {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}

// unattachable explains the kernel's error of attaching loaded probes.
func (t Target) unattachable(err error) *Untraceable {
	if errors.Is(err, syscall.E2BIG) {
		return &Untraceable{Target: t, Err: err, Reason: "As many tracing programs are attached to it as the kernel allows: " +
			"sessions of perf take two for each event, all sessions of bperf that share take two together; `bperf prog list` shows them."}
	}
	return t.untraceable(err)
}

// missedRuns has the numbers of runs in which the kernel skipped a probe, because it was already running on that CPU.
type missedRuns struct {
	Entry, Exit uint64
}

func (m missedRuns) plus(now, since missedRuns) missedRuns {
	return missedRuns{m.Entry + now.Entry - since.Entry, m.Exit + now.Exit - since.Exit}
}

func (p *probes) countMisses() (m missedRuns, err error) {
	for name, n := range map[string]*uint64{probesProgBperfEntry: &m.Entry, probesProgBperfExit: &m.Exit} {
		s, err := p.programs[name].Stats()
		if err != nil {
			return m, fmt.Errorf("read the statistics of the BPF program %s: %w", name, err)
		}
		*n = s.RecursionMisses
	}
	return m, nil
}

func (p *probes) state() (*probesSets, error) {
	s := new(probesSets)
	if err := p.maps[mapState].Lookup(uint32(0), s); err != nil {
		return nil, fmt.Errorf("read what is counted in a BPF program: %w", err)
	}
	return s, nil
}

func (p *probes) putState(s *probesSets) error {
	if err := p.maps[mapState].Put(uint32(0), s); err != nil {
		return fmt.Errorf("change what is counted in a BPF program: %w", err)
	}
	return nil
}

// enact makes set the current one. The caller waits until the runs that began before have ended.
func (p *probes) enact(s *probesSets, set *probesSet) error {
	*s.next() = *set
	if err := p.putState(s); err != nil { // before the probes use it
		return err
	}
	s.Version++
	return p.putState(s)
}

// busyFor is the longest time that copyCPU waits while a CPU adds a run.
const busyFor = 10 * time.Second

// copyCPUs copies the sums of each CPU. With closed, it also resets the extremes.
func (p *probes) copyCPUs(closed bool) error {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return err
	}
	for cpu := range cpus {
		if err := p.copyCPU(cpu, closed); err != nil {
			return fmt.Errorf("read what CPU %d has counted in a BPF program: %w", cpu, err)
		}
	}
	return nil
}

func (p *probes) copyCPU(cpu int, closed bool) error {
	args := []uint64{uint64(cpu), 1, 0}
	if closed {
		args[2] = 1
	}
	deadline := time.Now().Add(busyFor)
	for {
		busy, err := kernel.RunOnCPU(p.programs[probesProgBperfRead], cpu, args)
		if errors.Is(err, syscall.ENXIO) {
			return p.copyOffline(cpu, args)
		}
		if err == nil && busy == 0 {
			delete(p.offline, cpu)
			return nil
		}
		if err == nil && time.Now().After(deadline) {
			err = fmt.Errorf("a run is still being added after %v", busyFor)
		}
		if err != nil {
			return err
		}
		runtime.Gosched()
	}
}

// copyOffline copies the sums of a CPU that is offline, unless that was done before.
func (p *probes) copyOffline(cpu int, args []uint64) error {
	if p.offline[cpu] && args[2] == 0 {
		return nil
	}
	args[1] = 0
	p.offline[cpu] = true
	_, err := p.programs[probesProgBperfRead].Run(&ebpf.RunOptions{Context: args})
	return err
}
