package node

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/bperf/bperf/internal/bpfprog"
	"github.com/bperf/bperf/internal/printable"
)

// programs has what BPF programs did in the windows in which the kernel counted it.
type programs struct {
	known   map[uint32]*Program // those that were loaded at the end of the last window
	window  time.Duration       // of all windows
	own     map[uint32]string   // names of this process's programs, by ID
	ownTime map[string]time.Duration
	failed  error // of the last window
}

// reason returns why programs are missing or old, or "".
func (p *programs) reason() string {
	switch {
	case p.failed != nil:
		return p.failed.Error()
	case p.known == nil:
		return "the first window in which the kernel counts their runs has not ended"
	}
	return ""
}

// list returns the programs in the order of their IDs.
func (p *programs) list() []Program {
	all := make([]Program, 0, len(p.known))
	for _, id := range slices.Sorted(maps.Keys(p.known)) {
		all = append(all, *p.known[id])
	}
	return all
}

// add adds a window.
func (p *programs) add(o *bpfprog.Observation) {
	loaded := make(map[uint32]*Program, len(o.Programs))
	for _, seen := range o.Programs {
		one := p.known[seen.ID]
		if one == nil || one.Tag != seen.Tag {
			one = &Program{ID: seen.ID, Name: printable.Text(seen.Name), Type: seen.Type.String(), Tag: seen.Tag}
		}
		one.Runs += seen.Use.Runs
		one.Time += seen.Use.RunTime
		one.Window += o.Window
		loaded[seen.ID] = one
		if name, is := p.own[seen.ID]; is {
			p.ownTime[name] += seen.Use.RunTime
		}
	}
	p.known = loaded
	p.window += o.Window
}

// measure has the kernel count the runs of BPF programs from time to time.
func (c *Collector) measure(ctx context.Context) {
	for {
		begin := time.Now()
		o, err := observe(ctx, c.duty.For)
		if ctx.Err() != nil {
			return
		}
		c.mu.Lock()
		if c.programs.failed = err; err == nil {
			c.programs.add(o)
		}
		c.mu.Unlock()
		if !wait(ctx, c.duty.Every-time.Since(begin)) {
			return
		}
	}
}

// observe has the kernel count the runs of BPF programs for a time.
func observe(ctx context.Context, window time.Duration) (*bpfprog.Observation, error) {
	all, err := bpfprog.Parse("all")
	if err != nil {
		return nil, err
	}
	observer, _, err := bpfprog.Observe(all)
	if err != nil {
		return nil, err
	}
	defer observer.Close()
	if !wait(ctx, window) {
		return nil, ctx.Err()
	}
	return observer.Next()
}

// wait waits for a time. It returns false if the context ends before.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
