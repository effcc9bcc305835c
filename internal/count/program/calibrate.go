package program

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
)

// emptyName is that of the program that does nothing.
const emptyName = "bperf_empty"

// calibrationRuns are enough for one that nothing interrupts.
const calibrationRuns = 1000

// overheads are what probes themselves take of each run, by position of their set.
type overheads struct {
	plain, withTimes [maxEvents]uint64
}

// overheadOf measures what the probes take with a set of events, unless it has: the least that a run of a program counts that does nothing. It is
// nothing where the kernel lets nobody trace programs.
func (c *Counter) overheadOf(set *probesSet) (*overheads, error) {
	key := fmt.Sprint(set.Events, set.Keys, set.Memory)
	if known := c.measured[key]; known != nil {
		return known, nil
	}
	o := new(overheads)
	empty, target, err := loadEmpty()
	if err != nil {
		return nil, err
	}
	defer empty.Close()
	raw := *set
	raw.On, raw.Calibrated = 1, 0
	if err := c.measure(raw, empty, target, &o.plain); err != nil {
		return nil, err
	}
	if set.Calibrated != 0 {
		raw.WithTimes = 1
		if err := c.measure(raw, empty, target, &o.withTimes); err != nil {
			return nil, err
		}
	}
	c.measured[key] = o
	return o, nil
}

// measure counts in the program that does nothing.
func (c *Counter) measure(set probesSet, empty *ebpf.Program, target Target, least *[maxEvents]uint64) error {
	p, err := attach(target, c.object, c.source.array, c.types)
	if why := (*Untraceable)(nil); errors.As(err, &why) {
		return nil
	}
	if err != nil {
		return err
	}
	defer p.close()
	s := &session{probes: p, source: &source{token: ownToken}, inner: c.inner()}
	for position := range int(set.Events) {
		s.at = append(s.at, position)
	}
	if err := s.makeRoom(1<<set.Events - 1); err != nil {
		return err
	}
	if err := p.enact(new(probesSets), &set); err != nil {
		return err
	}
	packet := make([]byte, 64)
	if _, err := empty.Run(&ebpf.RunOptions{Data: packet, Repeat: calibrationRuns}); err != nil {
		return fmt.Errorf("run an empty BPF program to calibrate: %w", err)
	}
	counts, err := s.read(false)
	if err != nil {
		return err
	}
	for position, cpus := range counts.events {
		known := false
		for _, e := range cpus {
			if e.ranged && (!known || e.min < least[position]) {
				least[position], known = e.min, true
			}
		}
	}
	return nil
}

// Overhead is what is taken off each run, by event, as long as none shares its counter and no other session begins or ends; nil if nothing is.
func (c *Counter) Overhead() []uint64 {
	if !c.calibrate {
		return nil
	}
	all := make([]uint64, c.events)
	for _, p := range c.programs {
		if p.session == nil {
			continue
		}
		for ev, position := range p.session.at {
			if position >= 0 {
				all[ev] = p.session.taken[position]
			}
		}
		break
	}
	return all
}

// loadEmpty loads a program that does nothing.
func loadEmpty() (*ebpf.Program, Target, error) {
	proto := &btf.FuncProto{Return: &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed},
		Params: []btf.FuncParam{{Name: "context", Type: &btf.Pointer{Target: &btf.Void{}}}}}
	f := &btf.Func{Name: emptyName, Type: proto, Linkage: btf.GlobalFunc}
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: emptyName, Type: ebpf.SocketFilter, License: "Dual BSD/GPL",
		Instructions: asm.Instructions{btf.WithFuncMetadata(asm.Mov.Imm(asm.R0, 0).WithSymbol(emptyName), f), asm.Return()}})
	if err != nil {
		return nil, Target{}, fmt.Errorf("load an empty BPF program to calibrate: %w", err)
	}
	info, err := p.Info()
	if err != nil {
		return nil, Target{}, errors.Join(err, p.Close())
	}
	id, _ := info.ID()
	return p, Target{ID: uint32(id), Name: emptyName, Function: emptyName, JITed: true}, nil
}
