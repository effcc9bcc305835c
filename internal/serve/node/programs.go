package node

import (
	"context"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/bperf/bperf/internal/bpfprog"
	"github.com/bperf/bperf/internal/count/program"
	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/procfs"
)

// programs has what BPF programs did in the windows in which the kernel counted it.
type programs struct {
	known   map[uint32]*Program // those that were loaded at the end of the last window
	window  time.Duration       // of all windows
	own     map[uint32]string   // names of the counter's programs, by ID
	ownTime map[string]time.Duration
	failed  error // of the last window

	perSwitch float64 // run time of this process's programs in the last window for each context switch, in seconds; 0 if unknown
}

// window is what the kernel counted for a time.
type window struct {
	*bpfprog.Observation
	held     map[uint32]bool // programs that this process held at the end
	switches uint64          // context switches of the machine
}

// Names of own programs that come and go: those of profiles, and those that count inside other programs.
const (
	profiling = "profiles"
	probing   = "inside"
)

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
func (p *programs) add(o *window) {
	loaded := make(map[uint32]*Program, len(o.Programs))
	var own time.Duration
	for _, seen := range o.Programs {
		one := p.known[seen.ID]
		if one == nil || one.Tag != seen.Tag {
			one = &Program{ID: seen.ID, Name: printable.Text(seen.Name), Type: seen.Type.String(), Tag: seen.Tag}
		}
		one.Runs += seen.Use.Runs
		one.Time += seen.Use.RunTime
		one.Window += o.Window
		loaded[seen.ID] = one
		name, is := p.own[seen.ID]
		switch {
		case is || !o.held[seen.ID]:
		case program.IsProbe(seen.Program):
			name, is = probing, true
		default:
			name, is = profiling, true
		}
		if is {
			p.ownTime[name] += seen.Use.RunTime
			own += seen.Use.RunTime
		}
	}
	p.known = loaded
	p.window += o.Window
	if p.perSwitch = 0; o.switches > 0 {
		p.perSwitch = own.Seconds() / float64(o.switches)
	}
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
func observe(ctx context.Context, length time.Duration) (*window, error) {
	all, err := bpfprog.Parse("all")
	if err != nil {
		return nil, err
	}
	before, err := procfs.ReadStat(os.DirFS("/proc"))
	if err != nil {
		return nil, err
	}
	observer, _, err := bpfprog.Observe(all)
	if err != nil {
		return nil, err
	}
	defer observer.Close()
	if !wait(ctx, length) {
		return nil, ctx.Err()
	}
	seen, err := observer.Next()
	if err != nil {
		return nil, err
	}
	after, err := procfs.ReadStat(os.DirFS("/proc"))
	if err != nil {
		return nil, err
	}
	held, err := bpfprog.Held("/proc", os.Getpid())
	if err != nil {
		return nil, err
	}
	w := &window{seen, make(map[uint32]bool), after.Switches - before.Switches}
	for _, id := range held {
		w.held[id] = true
	}
	return w, nil
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
