package stat

import (
	"context"
	"time"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/count/program"
)

// lookEvery is the interval at which a session that follows BPF programs searches for programs that are selected by where they are
// attached, and for programs that only tracing programs still hold.
const lookEvery = time.Second

// following delivers new BPF programs to a run.
type following struct {
	found  <-chan []program.Target
	wait   func() error // returns the error that ended found
	ticks  *time.Ticker
	cancel context.CancelFunc
}

func (f *following) end() {
	if f == nil {
		return
	}
	f.cancel()
	f.ticks.Stop()
}

// follow starts to follow BPF programs, if the configuration asks for it.
func (r *run) follow() error {
	if r.cfg.Follow == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	found, wait, err := r.cfg.Follow.Follow(ctx)
	if err != nil {
		cancel()
		return err
	}
	r.following = &following{found, wait, time.NewTicker(lookEvery), cancel}
	return r.look() // for programs that were loaded since the session was set up
}

// followPrograms counts new programs as they are loaded, and searches for others, until the session is over.
func (r *run) followPrograms() {
	f := r.following
	for {
		select {
		case programs, ok := <-f.found:
			if !ok {
				r.Do(func() (bool, error) { return true, f.wait() })
				return
			}
			r.Do(func() (bool, error) { return false, r.count(programs) })
		case <-f.ticks.C:
			r.Do(func() (bool, error) { return false, r.look() })
		case <-r.Over():
			return
		}
	}
}

// look counts the programs that the selection finds now, and releases those that only tracing programs still hold.
func (r *run) look() error {
	programs, _, err := r.cfg.Follow.Find()
	if err != nil {
		return err
	}
	if err := r.count(programs); err != nil {
		return err
	}
	return r.counters.inside.LetGo()
}

// count adds programs to the session, with rows for them.
func (r *run) count(programs []program.Target) error {
	added, err := r.counters.inside.Add(programs)
	if err != nil || !added {
		return err
	}
	r.counters.namePrograms()
	cells, err := r.counters.Read(nil)
	if err != nil {
		return err
	}
	r.layout = newLayout(r.counters, cells, r.cfg, r.topology)
	r.last = align(r.last, cells)
	return nil
}

// align puts earlier cells in the order of the current ones. A cell that did not exist before has counted nothing.
func align(earlier, now []count.Cell) []count.Cell {
	type identity struct{ event, cpu, thread, cgroup, program int }
	of := func(c count.Cell) identity { return identity{c.Event, c.CPU, c.Thread, c.Cgroup, c.Program} }
	known := make(map[identity]count.Cell, len(earlier))
	for _, c := range earlier {
		known[of(c)] = c
	}
	aligned := make([]count.Cell, len(now))
	for i, c := range now {
		old, ok := known[of(c)]
		if !ok {
			old = count.Cell{Runs: new(count.Runs), Dropped: new(count.Dropped)}
		}
		aligned[i] = old
	}
	return aligned
}
