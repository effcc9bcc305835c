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

// measureProbes counts in a program that does nothing: the least that a run counts is the probes' own, and with takeOff is taken off each
// run that is counted later. Where the kernel lets nobody trace programs, there is nothing to take off.
func (c *Counter) measureProbes(o *options, takeOff bool) error {
	empty, target, err := loadEmpty()
	if err != nil {
		return err
	}
	defer empty.Close()
	var plain, withTimes [maxEvents]uint64
	traced, err := c.measure(*o, empty, target, &plain)
	if err != nil || !traced {
		return err
	}
	if !takeOff {
		c.included = plain[:c.events]
		return nil
	}
	timed := *o
	timed.withTimes = true
	if _, err := c.measure(timed, empty, target, &withTimes); err != nil {
		return err
	}
	o.overhead, o.overheadWithTimes = plain, withTimes
	c.overhead = plain[:c.events]
	return nil
}

// measure counts in the program that does nothing; it reports whether it can be traced.
func (c *Counter) measure(o options, empty *ebpf.Program, target Target, least *[maxEvents]uint64) (traced bool, err error) {
	p, err := attach(target, o, noWindow)
	if why := (*Untraceable)(nil); errors.As(err, &why) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, errors.Join(c.runEmpty(empty, p, least), p.close())
}

// runEmpty runs the program that does nothing.
func (c *Counter) runEmpty(empty *ebpf.Program, p *probes, least *[maxEvents]uint64) error {
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
	if err := errors.Join(p.setWindow(noWindow), c.perf.Disable()); err != nil {
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
