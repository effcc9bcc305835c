package program

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/count/direct"
	"github.com/bperf/bperf/internal/count/shared"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/target"
)

// Sharing selects the sessions with which a Counter shares perf events and probes.
type Sharing struct {
	Dir      string // directory in bpffs that these sessions use; empty to share nothing
	Required bool   // return an error if the Counter cannot share; otherwise it then opens its own events and probes
}

// Options are the options of a Counter.
type Options struct {
	Sharing

	AllUser   bool // exclude the kernel, for all events
	AllKernel bool // exclude user mode, for all events
	Following bool // programs may be loaded and unloaded while they are counted
	Probes    bool // first measure the overhead of the probes in each run, and report it with the runs
	Calibrate bool // first measure the overhead, and subtract it from each run
}

// perf returns the options of the engine that opens the perf events.
func (o Options) perf() count.Options {
	return count.Options{AllUser: o.AllUser, AllKernel: o.AllKernel}
}

// source has the perf events that the probes of a session read. They count from open to close.
type source struct {
	array *ebpf.Map // element row*N+CPU is an event on a CPU, where N is the number of possible CPUs
	rows  []uint64  // by event of the list; equal events of all sessions have the same row
	cpus  [][]int   // CPUs on which each event of the list counts
	token uint32    // of the session

	shared   *shared.Counter // nil if the session has its own events
	own      *direct.Counter // nil if the events are shared
	registry registry        // empty if nothing is shared
}

// ownToken is the token of a session that shares nothing.
const ownToken = 1

func openSource(list event.List, programs []Target, t target.Target, o Options, types *btf.Cache) (*source, error) {
	if o.Dir != "" {
		s, err := openShared(list, programs, t, o, types)
		if s != nil || o.Required {
			return s, err
		}
	}
	return openOwn(list, t, o.perf())
}

// openShared opens shared events. It returns nil if one of them cannot be shared and sharing is not required.
func openShared(list event.List, programs []Target, t target.Target, o Options, types *btf.Cache) (*source, error) {
	where := shared.Where{Dir: o.Dir, Unled: true, Types: types, Target: describe(programs)}
	c, err := shared.Open(where, list, target.Target{CPUs: t.CPUs}, shared.Options{Options: o.perf()})
	if err != nil {
		return nil, err
	}
	s := &source{array: c.Array(), shared: c, rows: make([]uint64, len(list.Events())), cpus: make([][]int, len(list.Events()))}
	for ev := range list.Events() {
		if c.Err(ev) != nil {
			if !o.Required {
				return nil, c.Close()
			}
			continue
		}
		s.rows[ev], s.cpus[ev] = uint64(c.Row(ev)), c.CPUs(ev)
	}
	s.registry = registryOf(c)
	if s.token, err = c.Token(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return s, nil
}

// describe returns a description of the programs for `bperf counters`.
func describe(programs []Target) string {
	switch len(programs) {
	case 0:
		return "BPF programs"
	case 1:
		return "BPF program " + programs[0].String()
	}
	return fmt.Sprintf("%d BPF programs", len(programs))
}

func openOwn(list event.List, t target.Target, o count.Options) (*source, error) {
	events := len(list.Events())
	s := &source{rows: make([]uint64, events), cpus: make([][]int, events), token: ownToken}
	var err error
	if s.own, err = direct.Open(list, t, o); err != nil {
		return nil, err
	}
	if err := s.fill(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// fill makes the array of the session's own events, and enables them.
func (s *source) fill() (err error) {
	if s.array, err = direct.NewArray(probesMapEvents, len(s.rows)); err != nil {
		return fmt.Errorf("create the BPF map %s: %w", probesMapEvents, err)
	}
	for ev := range s.rows {
		s.rows[ev], s.cpus[ev] = uint64(ev), s.own.CPUs(ev)
	}
	if err := s.own.Fill(s.array, nil); err != nil { // while a CPU is offline, its runs count as unread
		return err
	}
	return s.own.Enable()
}

// err returns why an event cannot be counted, or nil.
func (s *source) err(event int) error {
	if s.shared != nil {
		return s.shared.Err(event)
	}
	return s.own.Err(event)
}

// lock keeps other sessions from changing shared state until unlock.
func (s *source) lock() (unlock func(), err error) {
	if s.shared == nil {
		return func() {}, nil
	}
	return s.shared.Lock()
}

// lives reports whether the session with this token still lives.
func (s *source) lives(token uint32) bool { return token == s.token || shared.Lives(token) }

func (s *source) close() error {
	if s.shared != nil {
		return errors.Join(s.sweep(), s.shared.Close())
	}
	errs := []error{s.own.Close()}
	if s.array != nil {
		errs = append(errs, s.array.Close())
	}
	return errors.Join(errs...)
}

// sweep removes probes that no session needs from the registry.
func (s *source) sweep() error {
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock()
	return s.registry.sweep()
}
