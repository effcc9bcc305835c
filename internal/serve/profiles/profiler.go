// Package profiles takes profiles for the daemon: one without end of the whole machine, a window after the other, and those that clients
// ask for in the way of Go's net/http/pprof. It drives package sample, so that samples are counted in the kernel, and measures nothing
// itself.
package profiles

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/bperf/bperf/internal/allowance"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/internal/record"
	"github.com/bperf/bperf/internal/replay"
	"github.com/bperf/bperf/internal/sample"
	"github.com/bperf/bperf/internal/serve/container"
	"github.com/bperf/bperf/internal/session"
	"github.com/bperf/bperf/internal/symbol/debuginfod"
	"github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/perfdata"
)

// Config configures a Profiler.
type Config struct {
	Events    string        // as of bperf profile -e; empty for DefaultEvent, or with OffCPU for none
	Frequency uint64        // samples per second and CPU; 0 for DefaultFrequency
	Every     time.Duration // length of a window; 0 for DefaultEvery
	OffCPU    bool          // measure how long threads are blocked, too
	Keep      uint64        // bytes of windows that are kept; 0 for DefaultKeep. The last window is always kept
	Symbols   int64         // bytes for the symbols of a session; 0 for DefaultSymbols. Programs with more have none

	// Container returns the container that a cgroup belongs to, or false. A name with a path but no container ID is that of another cgroup,
	// such as a unit of systemd. Calls come from one goroutine. nil for no containers.
	Container func(cgroup uint64) (container.Name, bool)

	// Each gets each window when it is complete, in order. It must return soon: records of the kernel wait for it. It may be nil.
	Each func(*Window)

	// Debuginfod fetches the debugging information of programs without symbols, for later windows; nil for none. It must not wait.
	Debuginfod *debuginfod.Client

	Log *slog.Logger // nil for none
}

// The defaults of Config.
const (
	DefaultEvent     = "cpu-clock"
	DefaultFrequency = 19 // a prime, so that samples do not fall in step with timers
	DefaultEvery     = 15 * time.Second
	DefaultKeep      = 16 << 20
	DefaultSymbols   = 32 << 20
)

// back is how far back the windows go that a Profiler keeps.
const back = 5 * time.Minute

// patience is the time between two looks for new processes: about that between two samples at the default frequency.
const patience = 50 * time.Millisecond

// Profiler takes the profile without end.
type Profiler struct {
	cfg     Config
	list    event.List
	entries uint32 // initial size of the maps in the kernel; 0 for the default

	mu      sync.Mutex // guards the fields below
	windows []kept     // the oldest first
	bytes   uint64     // of windows
	err     error      // why there is no profile at the moment; nil if there is one
	rate    Rate       // that is wanted
	running Rate       // of the session; off without one

	changed chan struct{} // has an element after rate has changed
}

// Rate says how often the profile without end samples, and whether it is taken at all.
type Rate struct {
	On        bool
	Frequency uint64 // samples per second and CPU
}

// kept is a window and its size.
type kept struct {
	*Window
	bytes uint64
}

// New returns a Profiler, which does nothing until Run. It fails if the events are unknown or cannot be sampled here.
func New(cfg Config) (*Profiler, error) {
	cfg.Frequency, cfg.Every = cmp.Or(cfg.Frequency, DefaultFrequency), cmp.Or(cfg.Every, DefaultEvery)
	cfg.Keep, cfg.Symbols = cmp.Or(cfg.Keep, DefaultKeep), cmp.Or(cfg.Symbols, DefaultSymbols)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Events == "" && !cfg.OffCPU {
		cfg.Events = DefaultEvent
	}
	if cfg.Every < time.Second {
		return nil, fmt.Errorf("profiles of %v: an interval must be at least 1s", cfg.Every)
	}
	p := &Profiler{cfg: cfg, entries: entries(cfg.Frequency, cfg.OffCPU), rate: Rate{true, cfg.Frequency}, changed: make(chan struct{}, 1)}
	if cfg.Events == "" {
		return p, nil
	}
	var err error
	if p.list, err = event.Host().Parse(cfg.Events); err != nil {
		return nil, fmt.Errorf("the event of continuous profiles: %w", err)
	}
	for _, e := range p.list.Events() {
		if reason := refusal(e); reason != "" {
			return nil, fmt.Errorf("continuous profiles of %s: %s", e.Name, reason)
		}
	}
	return p, nil
}

// refusal returns why the daemon takes no profiles of an event, or "".
func refusal(e *event.Event) string {
	switch {
	case e.Tracepoint != "":
		return "samples of tracepoints are not counted in the kernel: use bperf record"
	case e.Tool != event.ToolNone:
		return "it cannot be sampled: only bperf stat measures it"
	case e.BPF:
		return "the modifier b is for counting: samples cannot be shared"
	case e.Attr.Flags&(perfdata.AttrPinned|perfdata.AttrExclusive) != 0:
		return "the modifiers D and e take counters from others"
	case e.Filter != "" || e.Program != "" || e.Sampling != (event.Sampling{}):
		return "only terms that select what is counted are possible"
	}
	return ""
}

// Windows returns the kept windows, the oldest first. The oldest one began at least five minutes before the last one. It began later if there
// are no older ones yet, or if they do not fit into Config.Keep.
func (p *Profiler) Windows() []*Window {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []*Window
	for _, w := range p.windows {
		all = append(all, w.Window)
	}
	return all
}

// Err returns why there is no profile at the moment, or nil. Run tries again.
func (p *Profiler) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// SetRate changes the rate from the end of the present window on. No window has samples of two frequencies. Samples carry the time or the
// events between two of them, so the sums of windows of different frequencies can be compared and added.
func (p *Profiler) SetRate(r Rate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rate = r
	select {
	case p.changed <- struct{}{}:
	default: // the element is still there
	}
}

// Settled reports whether nothing runs at another rate than the one of SetRate.
func (p *Profiler) Settled() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.running.On || p.running == p.rate
}

// errOff is why there is no profile while the rate is off.
var errOff = errors.New("given up to keep the budget")

// begin waits until the profile is wanted, and returns its rate. It returns false if the context is done before.
func (p *Profiler) begin(ctx context.Context) (Rate, bool) {
	for {
		p.mu.Lock()
		r := p.rate
		p.running = r
		if !r.On {
			p.err = errOff
		}
		p.mu.Unlock()
		if r.On {
			return r, ctx.Err() == nil
		}
		select {
		case <-ctx.Done():
			return r, false
		case <-p.changed:
		}
	}
}

// end says that the session has ended.
func (p *Profiler) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = Rate{}
}

// wants reports whether a rate is the wanted one.
func (p *Profiler) wants(r Rate) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rate == r
}

// The times between two attempts to profile.
const (
	leastPause = time.Second
	mostPause  = time.Minute
)

// Run profiles until the context is done. After an error it tries again, with longer and longer pauses; Err and the log have the error.
// When Run returns, no BPF program, map or perf event of it is left.
func (p *Profiler) Run(ctx context.Context) {
	pause := leastPause
	for ctx.Err() == nil {
		rate, ok := p.begin(ctx)
		if !ok {
			return
		}
		windows, err := p.session(ctx, rate)
		p.end()
		if ctx.Err() != nil {
			return
		}
		if windows > 0 {
			pause = leastPause
		}
		if errors.Is(err, errRate) || errors.Is(err, errFetched) {
			continue
		}
		if errors.Is(err, errAfresh) {
			p.cfg.Log.Warn("profiles begin afresh: too many records of processes were lost to follow these")
			continue
		}
		if err == nil {
			err = errors.New("the session ended")
		}
		p.fail(err)
		p.cfg.Log.Error("no continuous profiles", "err", err, "again_in", pause)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, mostPause)
	}
}

// errAfresh ends a session that has lost many records. The processes whose start or end it has missed would stay in its memory.
var errAfresh = errors.New("too many records were lost")

// errRate ends a session because another rate is wanted.
var errRate = errors.New("the rate has changed")

// errFetched ends a session because it has looked for debugging information that was fetched since.
var errFetched = errors.New("debugging information was fetched")

// When a session begins afresh: after this many lost records, but not before this many windows.
const (
	mostLost     = 10_000
	leastWindows = 20
)

// session profiles until the context is done, the rate changes or an error happens. It returns the number of windows.
func (p *Profiler) session(ctx context.Context, rate Rate) (windows int, err error) {
	known := newNames(p.cfg.Container)
	cfg := sampling(ctx, p.list, rate.Frequency, known, p.cfg.OffCPU)
	cfg.Replay.Debuginfod = p.cfg.Debuginfod
	fetched := p.cfg.Debuginfod.Fetched()
	cfg.Every, cfg.Entries, cfg.Patience = p.cfg.Every, p.entries, patience
	cfg.Record.Allowance = allowance.New(p.cfg.Symbols)
	lost := uint64(0)
	cfg.Each = func(all *profile.Profile) error {
		if ctx.Err() != nil { // the last window has no symbols, and nobody waits for it
			return nil
		}
		windows++
		all.RemoveDummies()
		p.add(newWindow(all, known))
		known.turn()
		if lost += all.Losses.Records; lost > mostLost && windows >= leastWindows {
			return errAfresh
		}
		if !p.wants(rate) {
			return errRate
		}
		if p.cfg.Debuginfod.Fetched() != fetched {
			return errFetched
		}
		return nil
	}
	_, err = sample.Run(cfg)
	return windows, err
}

// newWindow splits a profile into the parts of containers.
func newWindow(all *profile.Profile, known *names) *Window {
	w := &Window{Start: all.Info.Start, Duration: all.Info.Duration, Profile: all}
	labels := all.Labels()
	for id, part := range profile.Split(all, func(s *profile.Sample) profile.StringID { return labels[s.Labels].Cgroup }) {
		name := container.Name{}
		if id != 0 {
			name = known.of(all.Strings.At(id))
		}
		w.Parts = append(w.Parts, Part{name, part})
	}
	slices.SortFunc(w.Parts, func(a, b Part) int { return strings.Compare(a.Path, b.Path) })
	return w
}

// add keeps a window, drops the oldest ones beyond the limits, and hands it over.
func (p *Profiler) add(w *Window) {
	k := kept{w, w.Profile.Bytes()}
	for i := range w.Parts { // they share the tables
		k.bytes += uint64(cap(w.Parts[i].Profile.Samples())) * uint64(unsafe.Sizeof(profile.Sample{}))
	}
	p.mu.Lock()
	p.windows, p.bytes, p.err = append(p.windows, k), p.bytes+k.bytes, nil
	for len(p.windows) > 1 && (p.bytes > p.cfg.Keep || w.Start.Sub(p.windows[1].Start) >= back) {
		p.bytes -= p.windows[0].bytes
		p.windows = slices.Delete(p.windows, 0, 1)
	}
	p.mu.Unlock()
	if p.cfg.Each != nil {
		p.cfg.Each(w)
	}
}

func (p *Profiler) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
}

// sampling returns the configuration of a session that samples the whole machine until the context is done.
func sampling(ctx context.Context, list event.List, frequency uint64, known *names, offCPU bool) sample.Config {
	by := sample.Keys{Stack: true, PID: true, Comm: true, Cgroup: true, State: offCPU}
	keep := profile.Comm | profile.PID | profile.Cgroup
	if offCPU {
		keep |= profile.Other // the state
	}
	return sample.Config{By: by, Keep: keep, OffCPU: offCPU, CgroupPath: known.path, Replay: replay.Options{NoInline: true},
		Record: record.Config{Spec: session.Spec{Target: target.Spec{System: true}, Done: ctx.Done(), Notify: func(string) {}},
			Events: list, Frequency: frequency, Overrides: true, NoIdle: true, Inherit: true}}
}

// entries returns the initial size of the maps in the kernel: room for the samples of some seconds, whose stacks all differ. The default
// is for higher frequencies, and for threads that are blocked.
func entries(frequency uint64, offCPU bool) uint32 {
	const seconds, least, most = 4, 4 << 10, 32 << 10
	if offCPU {
		return 0
	}
	n := uint64(least)
	for n < seconds*frequency*uint64(runtime.NumCPU()) {
		n *= 2
	}
	if n >= most {
		return 0
	}
	return uint32(n)
}
