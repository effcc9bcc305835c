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
	"github.com/bperf/bperf/internal/count/direct"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/kernel"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/target"
)

// Counter is a count.Counter for BPF programs. Its cells are of a CPU and a program. It is not safe for
// concurrent use.
//
// Besides the events of its list it has those of OwnEvents, behind them.
type Counter struct {
	events    int             // of the list
	perf      *direct.Counter // counts on CPUs all the time
	array     *ebpf.Map
	cpus      [][]int // on which an event counts
	online    []int
	programs  []*subject
	probing   options // of all probes
	following bool    // programs may come and go

	references *link.Iter // nil until it is needed
	overhead   []uint64   // that is taken off each run, by event; nil if nothing is
	included   []uint64   // what of each run is the probes' own, by event; nil if that is not known, or taken off

	window  uint64
	enabled time.Time     // zero while disabled
	before  time.Duration // enabled up to the last Disable
}

// subject is a program that is counted in one of two ways.
type subject struct {
	Target
	probes *probes      // nil if it cannot be traced
	why    *Untraceable // then
	kernel *statistics  // then, and what is counted in its place; nil for a sub-program
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
	none := perfevent.Attr{Type: math.MaxUint32} // no perf event's
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
func Open(list event.List, programs []Target, t target.Target, o count.Options) (*Counter, error) {
	return openWith(list, programs, t, o, btf.NewCache())
}

func openWith(list event.List, programs []Target, t target.Target, o count.Options, types *btf.Cache) (*Counter, error) {
	events := len(list.Events())
	if events > maxEvents {
		return nil, fmt.Errorf("%d events are too many to count in BPF programs: %d are possible", events, maxEvents)
	}
	c := &Counter{events: events, online: t.CPUs, cpus: make([][]int, events)}
	c.probing.types = types
	if err := c.open(list, programs, t, o); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Counter) open(list event.List, programs []Target, t target.Target, o count.Options) (err error) {
	if c.perf, err = direct.Open(list, t, o); err != nil {
		return err
	}
	c.following = o.Following
	all := &c.probing
	if all.object, err = loadProbes(); err != nil {
		return err
	}
	all.count = c.events
	if all.events, err = c.newArray(); err != nil {
		return err
	}
	if err := c.fillArray(); err != nil {
		return err
	}
	for i, e := range list.Events() {
		if len(c.cpus[i]) < len(t.CPUs) {
			all.partial |= 1 << i
		}
		if countsInMemory(&e.Attr) {
			all.memory |= 1 << i
		}
	}
	if o.Probes || o.Calibrate {
		if err := c.measureProbes(all, o.Calibrate); err != nil {
			return err
		}
	}
	for _, p := range programs {
		if _, err := c.add(p); err != nil {
			return err
		}
	}
	if !c.following {
		all.types = nil // some megabytes
	}
	return nil
}

// countsInMemory reports whether the kernel counts an event in memory as it happens (perf_swevent_event), and not on a counter or by a clock.
func countsInMemory(a *perfevent.Attr) bool {
	switch a.Type {
	case perfevent.TypeTracepoint:
		return true
	case perfevent.TypeSoftware:
		return a.Config != perfevent.SoftwareCPUClock && a.Config != perfevent.SoftwareTaskClock
	}
	return false
}

// add opens what counts in a program. It is nil for one that has gone, if programs may.
func (c *Counter) add(p Target) (s *subject, err error) {
	s = &subject{Target: p}
	window := c.window
	if c.enabled.IsZero() {
		window = noWindow
	}
	s.probes, err = attach(p, c.probing, window)
	switch {
	case err == nil:
	case c.following && errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case !errors.As(err, &s.why):
		return nil, err
	case !p.Sub:
		s.kernel, err = openStatistics(p, !c.following)
		if c.following && errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
	}
	c.programs = append(c.programs, s)
	return s, nil
}

// newArray makes the map through which the probes read perf events.
func (c *Counter) newArray() (*ebpf.Map, error) {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, err
	}
	fd, err := perfevent.NewArray(probesMapEvents, max(cpus*c.events, 1))
	if err != nil {
		return nil, fmt.Errorf("create the BPF map %s: %w", probesMapEvents, err)
	}
	c.array, err = ebpf.NewMapFromFD(fd)
	return c.array, err
}

func (c *Counter) fillArray() error {
	return c.perf.Descriptors(func(ev, cpu, fd int) error {
		c.cpus[ev] = append(c.cpus[ev], cpu)
		if err := c.array.Put(uint32(cpu*c.events+ev), uint32(fd)); err != nil {
			return fmt.Errorf("let BPF programs read event %d on CPU %d: %w", ev, cpu, err)
		}
		return nil
	})
}

// Enable begins to count. Runs that are under way are not counted.
func (c *Counter) Enable() error {
	if !c.enabled.IsZero() {
		return nil
	}
	if err := c.perf.Enable(); err != nil {
		return err
	}
	c.window++
	for _, p := range c.programs {
		if err := p.begin(c.window); err != nil {
			return err
		}
	}
	c.enabled = time.Now()
	return nil
}

// Disable ends counting. When it returns, nothing is added any more.
func (c *Counter) Disable() error {
	if c.enabled.IsZero() {
		return nil
	}
	c.before += time.Since(c.enabled)
	c.enabled = time.Time{}
	c.window++
	for _, p := range c.programs {
		if err := p.end(c.window); err != nil {
			return err
		}
	}
	if err := kernel.WaitForBPF(); err != nil {
		return err
	}
	return c.perf.Disable()
}

func (s *subject) begin(window uint64) (err error) {
	switch {
	case s.probes != nil && s.probes.last != nil:
		return nil
	case s.probes != nil:
	case s.kernel != nil:
		return s.kernel.begin()
	default:
		return nil
	}
	if s.probes.since, err = s.probes.countMisses(); err != nil {
		return err
	}
	return s.probes.setWindow(window)
}

func (s *subject) end(window uint64) error {
	switch {
	case s.probes != nil:
		return s.probes.end(window)
	case s.kernel != nil:
		return s.kernel.end()
	default:
		return nil
	}
}

// end ends a window.
func (p *probes) end(window uint64) error {
	if p.last != nil {
		return nil
	}
	if err := p.setWindow(window); err != nil {
		return err
	}
	now, err := p.countMisses()
	if err != nil {
		return err
	}
	p.misses = p.misses.plus(now, p.since)
	p.since = now
	return nil
}

func (m Misses) plus(now, since Misses) Misses {
	return Misses{m.Entry + now.Entry - since.Entry, m.Exit + now.Exit - since.Exit}
}

// Read appends the readings of each program.
func (c *Counter) Read(dst []count.Cell) ([]count.Cell, error) {
	var cells []count.Cell
	for i, p := range c.programs {
		var err error
		switch {
		case p.probes != nil:
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
	p := c.programs[program].probes
	state, histograms, err := p.read()
	if err != nil {
		return nil, err
	}
	misses, err := c.misses(p)
	if err != nil {
		return nil, err
	}
	time, lost := c.time(), dropped(state, misses)
	for ev, cpus := range c.cpus {
		for _, cpu := range cpus {
			runs, r := state[cpu].event(ev, &histograms[ev][cpu])
			if c.included != nil {
				runs.Probes = &c.included[ev]
			}
			cells = append(cells, count.Cell{Event: ev, CPU: cpu, Thread: count.None, Cgroup: count.None, Program: program, Reading: r, Runs: runs})
		}
	}
	for n, cpu := range c.online {
		s := &state[cpu]
		own := [...]uint64{ownRuns: s.runs(), ownRunTime: s.plainTime() + s.FullTime, ownDropped: lost[cpu].Total()}
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

// misses are those of the time in which the session counted.
func (c *Counter) misses(p *probes) (Misses, error) {
	if c.enabled.IsZero() || p.last != nil {
		return p.misses, nil
	}
	now, err := p.countMisses()
	return p.misses.plus(now, p.since), err
}

// runs is how many have ended.
func (s *probesCpu) runs() uint64 {
	return s.Counted + s.Dropped[droppedBegun] + s.Dropped[droppedMixed] + s.Dropped[droppedSwitched] + s.Dropped[droppedUnreadable]
}

// plainTime is the time of the runs that were read plainly, in ns. Those after the last one whose time was taken had that of the others.
func (s *probesCpu) plainTime() uint64 {
	if s.PlainRuns == 0 || s.Counted <= s.Timed {
		return s.PlainTime
	}
	return s.PlainTime + uint64(float64(s.PlainTime)/float64(s.PlainRuns)*float64(s.Counted-s.Timed))
}

// event is what an event counted on a CPU. The histogram was read after the rest: runs that were not in it then are in it, and some more, if
// others were put into it meanwhile.
func (s *probesCpu) event(ev int, h *probesHistogram) (*count.Runs, perfevent.Reading) {
	sum := &s.Sums[ev]
	runs := &count.Runs{Counted: s.Counted, Min: ^sum.AboveMin, Max: sum.Max, Ranged: sum.AboveMin != 0, Buckets: h.Runs}
	var filed uint64
	for _, n := range h.Runs {
		filed += n
	}
	if filed == sum.Filed-sum.Skipped && s.Counted > sum.Filed {
		runs.Buckets[sum.Bucket] += s.Counted - sum.Filed
	}
	enabled := sum.Reading.Enabled + s.plainTime()
	return runs, perfevent.Reading{Value: sum.Reading.Value, Enabled: enabled, Running: enabled - min(sum.Reading.Stopped, enabled)}
}

// As in bpf/probes.bpf.c.
const (
	droppedBegun = iota
	droppedFull
	droppedMixed
	droppedSwitched
	droppedUnreadable
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
		return c.perf.Err(ev)
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
	case c.perf.Err(ev) != nil:
		return c.perf.Err(ev)
	case p.why != nil:
		return p.why
	}
	return nil
}

// Close detaches from all programs.
func (c *Counter) Close() error {
	var errs []error
	for _, p := range c.programs {
		if p.probes != nil {
			errs = append(errs, p.probes.close())
		}
		if p.kernel != nil {
			errs = append(errs, p.kernel.close())
		}
	}
	if c.references != nil {
		errs = append(errs, c.references.Close())
	}
	if c.array != nil {
		errs = append(errs, c.array.Close())
	}
	if c.perf != nil {
		errs = append(errs, c.perf.Close())
	}
	c.programs, c.array, c.perf = nil, nil, nil
	return errors.Join(errs...)
}
