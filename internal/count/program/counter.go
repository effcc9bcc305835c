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

// Counter is a count.Counter for BPF programs. It has a cell for each event, CPU and program. It is not safe for
// concurrent use.
//
// After the events of its list it counts those of OwnEvents.
type Counter struct {
	events    int // of the list
	wanted    []wanted
	source    *source
	online    []int
	programs  []*subject
	following bool // programs may be loaded and unloaded
	calibrate bool // subtract the overhead from each run
	measures  bool // measure the overhead

	object   *ebpf.CollectionSpec  // the compiled probes
	types    *btf.Cache            // the kernel's types: decoding them takes longer than the rest of attaching
	measured map[string]*overheads // by set of events

	references *link.Iter // nil until countReferences needs it

	enabled time.Time     // zero while disabled
	before  time.Duration // enabled up to the last Disable
}

// subject is a program that a session counts, or for which the kernel's statistics replace the counts.
type subject struct {
	Target
	session *session     // nil if the program cannot be traced
	why     *Untraceable // set if session is nil
	kernel  *statistics  // set if session is nil, except for a sub-program
}

// Names of the events that a Counter has besides those of its list, and the PMU in their Event.
const (
	PMU     = "bpf"
	Runs    = "bpf-runs"
	RunTime = "bpf-run-time"
	Dropped = "bpf-dropped"
)

// OwnEvents returns the events that a Counter has besides those of its list: the runs of a program that ended, their time in ns, and the
// runs that were dropped. The time is between the two readings. For a program that cannot be traced, runs and time are the
// kernel's, and there are no dropped runs.
func OwnEvents() []*event.Event {
	none := perfdata.Attr{Type: math.MaxUint32} // no perf event has this type
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

// Open prepares to count the events of a list in BPF programs, on the CPUs of the target. It is no error if a program cannot be
// traced: ErrAt returns why.
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

// refresh makes all CPUs look up their events again, in all programs.
func (c *Counter) refresh() error {
	var errs []error
	for _, p := range c.programs {
		if p.session != nil && !p.session.ended {
			errs = append(errs, p.session.refreshed())
		}
	}
	return errors.Join(errs...)
}

// countsInMemory reports whether the kernel counts an event in memory when it happens (perf_swevent_event), not on a counter or with a clock.
func countsInMemory(a *perfdata.Attr) bool {
	switch a.Type {
	case perfdata.TypeTracepoint:
		return true
	case perfdata.TypeSoftware:
		return a.Config != perfdata.SoftwareCPUClock && a.Config != perfdata.SoftwareTaskClock
	}
	return false
}

// add opens a session, or the kernel's statistics, for a program. It returns nil if the program has been unloaded and that is no error.
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

// setPrograms sets the programs that are counted. It takes the lock because another goroutine uses them when CPUs come online or go offline.
func (c *Counter) setPrograms(programs []*subject) error {
	unlock, err := c.source.lock()
	if err != nil {
		return err
	}
	defer unlock()
	c.programs = programs
	return nil
}

// probesOf opens the probes of a program, or attaches and registers new ones if no session has any.
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

// newSession returns a session for the probes. It measures the overhead early, for the events that the probes will probably read once the
// session counts.
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
		return s, nil // join returns the error if it persists
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

// inner returns the specifications of the elements of the probes' maps of maps.
func (c *Counter) inner() map[string]*ebpf.MapSpec {
	inner := make(map[string]*ebpf.MapSpec)
	for _, name := range []string{probesMapPositions, probesMapExtremes} {
		inner[name] = c.object.Maps[name].InnerMap
	}
	return inner
}

// Enable begins to count. It counts each run that ends from now on, unless the run began before the probes were attached.
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

// begin begins to count in these programs.
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

// Disable ends counting. After it returns, nothing is added to the counts.
func (c *Counter) Disable() error {
	if c.enabled.IsZero() {
		return nil
	}
	c.before += time.Since(c.enabled)
	c.enabled = time.Time{}
	return c.end(c.programs)
}

// end ends counting in these programs.
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

// time returns the time for which the counter was enabled, in ns.
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
		if n == 0 { // the kernel does not report the CPU of these misses
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

// runs returns the number of runs that have ended.
func (s *probesCopy) runs() uint64 {
	return s.Counted + s.Dropped[droppedBegun] + s.Dropped[droppedMixed] + s.Dropped[droppedSwitched]
}

// event returns the counts of an event on a CPU.
func (c *counted) event(ev, cpu int) (*count.Runs, perfevent.Reading) {
	e, of := &c.events[ev][cpu], &c.cpus[cpu]
	runs := &count.Runs{Counted: of.Counted - e.unread, Min: e.min, Max: e.max, Ranged: e.ranged, Buckets: e.buckets, Probes: e.probes, Unmeasured: e.unmeasured}
	enabled := e.enabled + of.PlainTime
	return runs, perfevent.Reading{Value: e.value, Enabled: enabled, Running: enabled - min(e.stopped, enabled)}
}

// enum dropped of bpf/probes.bpf.c.
const (
	droppedBegun = iota
	droppedFull
	droppedMixed
	droppedSwitched
)

// Err returns why an event cannot be counted in any program, or nil if it can in one.
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

// ErrAt returns why an event cannot be counted in one of the programs, or nil.
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

// Close ends counting and closes the probes of all programs.
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
