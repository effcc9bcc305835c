package program

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/perfdata"
)

// Counter is a count.Counter for BPF programs. Its cells are of a CPU and a program. It is not safe for
// concurrent use.
//
// Besides the events of its list it has those of OwnEvents, behind them.
type Counter struct {
	events    int // of the list
	wanted    []wanted
	source    *source
	online    []int
	programs  []*subject
	following bool // programs may come and go
	calibrate bool // what the probes take is subtracted from each run
	measures  bool // what they take is measured

	object   *ebpf.CollectionSpec  // the probes, as they were compiled
	types    *btf.Cache            // the kernel's: decoding them takes longer than the rest of attaching
	measured map[string]*overheads // by set of events

	references *link.Iter // nil until it is needed

	enabled time.Time     // zero while disabled
	before  time.Duration // enabled up to the last Disable
}

// subject is a program that is counted in one of two ways.
type subject struct {
	Target
	session *session     // nil if it cannot be traced
	why     *Untraceable // then
	kernel  *statistics  // then, and what is counted in its place; nil for a sub-program
}

// Events that a Counter has besides those of its list, and what stands in place of their PMU.
const (
	PMU     = "bpf"
	Runs    = "bpf-runs"
	RunTime = "bpf-run-time"
	Dropped = "bpf-dropped"
)

// OwnEvents are the runs of a program that ended, their time in ns, and those of them that are not in the counts. The time is that
// between the readings; where a program cannot be traced it is the kernel's, and nothing is dropped.
func OwnEvents() []*event.Event {
	none := perfdata.Attr{Type: math.MaxUint32} // no perf event's
	return []*event.Event{
		{Name: Runs, PMU: PMU, Attr: none, Scale: 1},
		{Name: RunTime, PMU: PMU, Attr: none, Scale: 1e-6, Unit: "msec"},
		{Name: Dropped, PMU: PMU, Attr: none, Scale: 1},
	}
}

const (
	ownRuns = iota
	ownRunTime
	ownDropped
)

// Open prepares to count the events of a list in BPF programs, on all CPUs that are online. It is no error if a program cannot be
// traced: ErrAt tells why.
func Open(list event.List, programs []Target, t target.Target, o Options) (*Counter, error) {
	return openWith(list, programs, t, o, btf.NewCache())
}

func openWith(list event.List, programs []Target, t target.Target, o Options, types *btf.Cache) (*Counter, error) {
	events := len(list.Events())
	if events > maxEvents {
		return nil, fmt.Errorf("%d events are too many to count in BPF programs: %d are possible", events, maxEvents)
	}
	c := &Counter{events: events, online: t.CPUs, following: o.Following, calibrate: o.Calibrate, measures: o.Calibrate || o.Probes, types: types, measured: make(map[string]*overheads)}
	if err := c.open(list, programs, t, o); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Counter) open(list event.List, programs []Target, t target.Target, o Options) (err error) {
	if c.object, err = loadProbes(); err != nil {
		return err
	}
	if c.source, err = openSource(list, programs, t, o, c.types); err != nil {
		return err
	}
	for ev, e := range list.Events() {
		if c.source.err(ev) != nil {
			c.wanted = append(c.wanted, wanted{never: true})
			continue
		}
		w := wanted{key: c.source.rows[ev] << 1, memory: countsInMemory(&e.Attr)}
		if c.calibrate {
			w.key |= 1
		}
		c.wanted = append(c.wanted, w)
	}
	for _, p := range programs {
		if _, err := c.add(p); err != nil {
			return err
		}
	}
	if len(programs) > 0 && len(c.programs) == 0 && !c.following {
		return fmt.Errorf("all BPF programs that were selected have been unloaded: %w", fs.ErrNotExist)
	}
	if c.source.shared != nil {
		c.source.shared.AfterCPUs(c.refresh)
	}
	return nil
}

// refresh has the CPUs look anew where their events are.
func (c *Counter) refresh() error {
	var errs []error
	for _, p := range c.programs {
		if p.session != nil && !p.session.ended {
			errs = append(errs, p.session.refreshed())
		}
	}
	return errors.Join(errs...)
}

// countsInMemory reports whether the kernel counts an event in memory as it happens (perf_swevent_event), and not on a counter or by a clock.
func countsInMemory(a *perfdata.Attr) bool {
	switch a.Type {
	case perfdata.TypeTracepoint:
		return true
	case perfdata.TypeSoftware:
		return a.Config != perfdata.SoftwareCPUClock && a.Config != perfdata.SoftwareTaskClock
	}
	return false
}

// add opens what counts in a program. It is nil for one that has been unloaded, unless that is an error.
func (c *Counter) add(p Target) (s *subject, err error) {
	s = &subject{Target: p}
	gone := func(err error) bool { return (c.following || !p.ByID) && errors.Is(err, fs.ErrNotExist) }
	probes, err := c.probesOf(p)
	switch {
	case err == nil:
		s.session, err = c.newSession(probes)
		if err != nil {
			return nil, errors.Join(err, probes.close())
		}
	case gone(err):
		return nil, nil
	case !errors.As(err, &s.why):
		return nil, err
	case !p.Sub:
		s.kernel, err = openStatistics(p, !c.following)
		if gone(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return s, c.setPrograms(append(c.programs, s))
}

// setPrograms changes the programs that are counted. CPUs may come and go in another goroutine, with the lock held.
func (c *Counter) setPrograms(programs []*subject) error {
	unlock, err := c.source.lock()
	if err != nil {
		return err
	}
	defer unlock()
	c.programs = programs
	return nil
}

// probesOf opens the probes of a program: those that other sessions have, or new ones that others can find.
func (c *Counter) probesOf(t Target) (p *probes, err error) {
	if c.source.shared == nil {
		return attach(t, c.object, c.source.array, c.types)
	}
	unlock, err := c.source.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	if p, err = c.source.registry.find(t); p != nil || err != nil {
		return p, err
	}
	if p, err = attach(t, c.object, c.source.array, c.types); err != nil {
		return nil, err
	}
	if err := c.source.registry.add(t, p); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// newSession makes what counts with probes. The overhead is measured now, for the events that are likely to be read once it begins.
func (c *Counter) newSession(p *probes) (*session, error) {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, err
	}
	s := &session{probes: p, source: c.source, overhead: c.overheadOf, measures: c.measures, inner: c.inner(), total: newCounted(cpus, c.events)}
	state, err := s.state()
	if err != nil {
		return nil, err
	}
	set, at, err := positionsOf(state.current(), 1<<state.current().Events-1, c.wanted)
	if err != nil {
		return s, nil // it is an error if it is still so when it begins
	}
	s.at = at
	if !c.measures {
		return s, nil
	}
	set.Measured = 1
	if set.same(state.current()) {
		return s, nil
	}
	if _, err := c.overheadOf(&set); err != nil {
		return nil, err
	}
	return s, nil
}

// inner are the maps that maps of the probes have as elements.
func (c *Counter) inner() map[string]*ebpf.MapSpec {
	inner := make(map[string]*ebpf.MapSpec)
	for _, name := range []string{probesMapPositions, probesMapExtremes} {
		inner[name] = c.object.Maps[name].InnerMap
	}
	return inner
}

// Enable begins to count. A run counts if it ends from now on, unless it was under way when the probes were attached.
func (c *Counter) Enable() error {
	if !c.enabled.IsZero() {
		return nil
	}
	if err := c.begin(c.programs); err != nil {
		return err
	}
	c.enabled = time.Now()
	return nil
}

// begin begins to count in some of the programs.
func (c *Counter) begin(programs []*subject) error {
	unlock, err := c.source.lock()
	if err != nil {
		return err
	}
	defer unlock()
	any := false
	for _, p := range programs {
		if p.session == nil || p.session.ended {
			continue
		}
		changed, err := p.session.join(c.wanted)
		if err != nil {
			return fmt.Errorf("count in BPF program %s: %w", p.Target, err)
		}
		any = any || changed
	}
	if err := waitIf(any); err != nil {
		return err
	}
	for _, p := range programs {
		switch {
		case p.session != nil && !p.session.ended:
			err = p.session.begin()
		case p.kernel != nil:
			err = p.kernel.begin()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Disable ends counting. When it returns, nothing is added any more.
func (c *Counter) Disable() error {
	if c.enabled.IsZero() {
		return nil
	}
	c.before += time.Since(c.enabled)
	c.enabled = time.Time{}
	return c.end(c.programs)
}

// end ends counting in some of the programs.
func (c *Counter) end(programs []*subject) error {
	unlock, err := c.source.lock()
	if err != nil {
		return err
	}
	defer unlock()
	var changed []*session
	for _, p := range programs {
		switch {
		case p.session != nil && p.session.order != 0:
			var is bool
			if is, err = p.session.end(); is {
				changed = append(changed, p.session)
			}
		case p.kernel != nil:
			err = p.kernel.end()
		}
		if err != nil {
			return err
		}
	}
	if err := waitIf(len(changed) > 0); err != nil {
		return err
	}
	for _, s := range changed {
		if err := s.settle(); err != nil {
			return err
		}
	}
	return nil
}

// Read appends the readings of each program.
func (c *Counter) Read(dst []count.Cell) ([]count.Cell, error) {
	unlock, err := c.source.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	var cells []count.Cell
	for i, p := range c.programs {
		var err error
		switch {
		case p.session != nil:
			cells, err = c.readTraced(cells, i)
		case p.kernel != nil:
			cells, err = c.readStatistics(cells, i)
		}
		if err != nil {
			return nil, err
		}
	}
	for ev := range c.events + len(OwnEvents()) {
		for _, cell := range cells {
			if cell.Event == ev {
				dst = append(dst, cell)
			}
		}
	}
	return dst, nil
}

// time is the time for which the session has counted.
func (c *Counter) time() uint64 {
	if c.enabled.IsZero() {
		return uint64(c.before)
	}
	return uint64(c.before + time.Since(c.enabled))
}

func (c *Counter) readTraced(cells []count.Cell, program int) ([]count.Cell, error) {
	now, misses, err := c.programs[program].session.now()
	if err != nil {
		return nil, err
	}
	time, lost := c.time(), c.dropped(now, misses)
	for ev, cpus := range c.source.cpus {
		for _, cpu := range cpus {
			runs, r := now.event(ev, cpu)
			runs.ProbesMeasured, runs.Calibrated = c.measures, c.calibrate
			cells = append(cells, count.Cell{Event: ev, CPU: cpu, Thread: count.None, Cgroup: count.None, Program: program, Reading: r, Runs: runs})
		}
	}
	for n, cpu := range c.online {
		s := &now.cpus[cpu]
		own := [...]uint64{ownRuns: s.runs(), ownRunTime: s.PlainTime + s.FullTime, ownDropped: lost[cpu].Total()}
		if n == 0 { // the kernel does not say on which CPU
			own[ownRuns] += misses.Exit
		}
		for i, v := range own {
			r := perfevent.Reading{Value: v, Enabled: time, Running: time}
			cells = append(cells, count.Cell{Event: c.events + i, CPU: cpu, Thread: count.None, Cgroup: count.None, Program: program, Reading: r})
		}
		cells[len(cells)-1].Dropped = &lost[cpu]
	}
	return cells, nil
}

// runs is how many have ended.
func (s *probesCopy) runs() uint64 {
	return s.Counted + s.Dropped[droppedBegun] + s.Dropped[droppedMixed] + s.Dropped[droppedSwitched]
}

// event is what an event counted on a CPU.
func (c *counted) event(ev, cpu int) (*count.Runs, perfevent.Reading) {
	e, of := &c.events[ev][cpu], &c.cpus[cpu]
	runs := &count.Runs{Counted: of.Counted - e.unread, Min: e.min, Max: e.max, Ranged: e.ranged, Buckets: e.buckets, Probes: e.probes, Unmeasured: e.unmeasured}
	enabled := e.enabled + of.PlainTime
	return runs, perfevent.Reading{Value: e.value, Enabled: enabled, Running: enabled - min(e.stopped, enabled)}
}

// As in bpf/probes.bpf.c.
const (
	droppedBegun = iota
	droppedFull
	droppedMixed
	droppedSwitched
)

// Err says why an event cannot be counted in any program.
func (c *Counter) Err(ev int) error {
	for i := range c.programs {
		if c.ErrAt(ev, i) == nil {
			return nil
		}
	}
	if len(c.programs) > 0 {
		return c.ErrAt(ev, 0)
	}
	if ev < c.events {
		return c.source.err(ev)
	}
	return nil
}

// ErrAt says why an event cannot be counted in one of the programs.
func (c *Counter) ErrAt(ev, program int) error {
	p := c.programs[program]
	switch {
	case p.why != nil && (p.Sub || ev == c.events+ownDropped):
		return p.why
	case ev >= c.events:
		return nil
	case c.source.err(ev) != nil:
		return c.source.err(ev)
	case p.why != nil:
		return p.why
	}
	return nil
}

// Close detaches from all programs.
func (c *Counter) Close() error {
	if c.source == nil {
		return nil
	}
	errs := []error{c.Disable()}
	programs := c.programs
	errs = append(errs, c.setPrograms(nil))
	for _, p := range programs {
		errs = append(errs, p.close())
	}
	if c.references != nil {
		errs = append(errs, c.references.Close())
	}
	errs = append(errs, c.source.close())
	c.references, c.source = nil, nil
	return errors.Join(errs...)
}

func (s *subject) close() error {
	switch {
	case s.session != nil:
		return s.session.finish()
	case s.kernel != nil:
		return s.kernel.close()
	}
	return nil
}
