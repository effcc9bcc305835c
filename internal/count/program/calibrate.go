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

// calibrate counts in a program that does nothing: the least that a run counts is the probes' own, and is taken off each run that is
// counted later. Where the kernel lets nobody trace programs, there is nothing to take off.
func (c *Counter) calibrate(o *options) error {
	empty, target, err := loadEmpty()
	if err != nil {
		return err
	}
	defer empty.Close()
	plain, withTimes := *o, *o
	withTimes.withTimes = true
	for _, way := range []struct {
		options
		overhead *[maxEvents]uint64
	}{{plain, &o.overhead}, {withTimes, &o.overheadWithTimes}} {
		p, err := attach(target, way.options, 0)
		if why := (*Untraceable)(nil); errors.As(err, &why) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := errors.Join(c.measure(empty, p, way.overhead), p.close()); err != nil {
			return err
		}
	}
	c.overhead = o.overhead[:c.events]
	return nil
}

// measure runs the program that does nothing.
func (c *Counter) measure(empty *ebpf.Program, p *probes, least *[maxEvents]uint64) error {
	if err := c.perf.Enable(); err != nil {
		return err
	}
	if err := p.setWindow(1); err != nil {
		return err
	}
	packet := make([]byte, 64)
	if _, err := empty.Run(&ebpf.RunOptions{Data: packet, Repeat: calibrationRuns}); err != nil {
		return fmt.Errorf("run an empty BPF program to calibrate: %w", err)
	}
	if err := errors.Join(p.setWindow(2), c.perf.Disable()); err != nil {
		return err
	}
	state, histograms, err := p.read()
	if err != nil {
		return err
	}
	for ev := range c.events {
		known := false
		for cpu := range state {
			if runs, _ := state[cpu].event(ev, &histograms[ev][cpu]); runs.Ranged && (!known || runs.Min < least[ev]) {
				least[ev], known = runs.Min, true
			}
		}
	}
	return nil
}

// Overhead is what is taken off each run, by event, as long as none shares its counter; nil if nothing is.
func (c *Counter) Overhead() []uint64 { return c.overhead }

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
