package program

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
)

// emptyName is the name of the program that does nothing.
const emptyName = "bperf_empty"

// calibrationRuns are enough runs for one without an interrupt. bperf repeats them until each event had a counter in one of them, because multiplexed events
// take turns: calibrationRounds times at most.
const (
	calibrationRuns   = 1000
	calibrationRounds = 200
)

// overheads has the overhead of each position of a set.
type overheads struct {
	plain, withTimes [maxEvents]uint64 // for runs read without and with times
	unmeasured       uint64            // positions with unknown overhead, one bit each: their overhead is 0
}

// overheadOf returns the overhead of the probes with a set of events. It measures each set once: the overhead is the least count in a run of a program that
// does nothing. It is 0 if the kernel does not allow tracing programs.
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
	if err := c.measure(*set, empty, target, o); err != nil {
		return nil, err
	}
	c.measured[key] = o
	return o, nil
}

// Values of struct set.reads in bpf/probes.bpf.c.
const (
	plainly = 1 + iota
	withTimes
)

// measure measures the overhead in the program that does nothing.
func (c *Counter) measure(set probesSet, empty *ebpf.Program, target Target, o *overheads) error {
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
	set.On, set.Calibrated = 1, 0
	state := new(probesSets)
	for _, way := range []struct {
		reads uint64
		least *[maxEvents]uint64
	}{{plainly, &o.plain}, {withTimes, &o.withTimes}} {
		set.Reads = way.reads
		if err := p.enact(state, &set); err != nil {
			return err
		}
		unknown, err := s.leastOf(empty, way.least)
		if err != nil {
			return err
		}
		o.unmeasured |= unknown
	}
	for position := range s.at {
		if o.unmeasured>>position&1 != 0 {
			o.plain[position], o.withTimes[position] = 0, 0
		}
	}
	return nil
}

// leastOf runs the program that does nothing and stores the least count of each position. It returns the positions whose events never had a counter.
func (s *session) leastOf(empty *ebpf.Program, least *[maxEvents]uint64) (unknown uint64, err error) {
	packet := make([]byte, 64)
	if _, err := s.read(true); err != nil { // reset the extremes of runs that were read the other way
		return 0, err
	}
	for range calibrationRounds {
		if _, err := empty.Run(&ebpf.RunOptions{Data: packet, Repeat: calibrationRuns}); err != nil {
			return 0, fmt.Errorf("run an empty BPF program to calibrate: %w", err)
		}
		counts, err := s.read(false)
		if err != nil {
			return 0, err
		}
		unknown = 0
		for position, cpus := range counts.events {
			var all eventCounts
			for _, e := range cpus {
				if e.ranged {
					all.widen(^e.min, e.max)
				}
			}
			least[position] = all.min
			if !all.ranged {
				unknown |= 1 << position
			}
		}
		if unknown == 0 {
			break
		}
	}
	return unknown, nil
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
