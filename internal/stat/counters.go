package stat

import (
	"errors"
	"slices"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/count/direct"
	"github.com/bperf/bperf/internal/count/program"
	"github.com/bperf/bperf/internal/count/shared"
	"github.com/bperf/bperf/internal/count/tool"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/target"
)

// counters combines all counters of a session: one part per engine and set of cgroups.
type counters struct {
	events   []*event.Event
	index    map[*event.Event]int // of events
	target   target.Target        // the session's; its cgroups are the union over all parts
	cgroups  []string             // names of the cgroups
	programs []string             // names of the BPF programs

	parts   []part
	tools   []*tool.Counter  // the parts that count tool events
	common  []sharedPart     // the parts that share counters with other sessions
	inside  *program.Counter // the part that counts in BPF programs, or nil
	joiners []joiner         // the parts that open perf events for the target
}

// part is a counter for some of the session's events.
type part struct {
	count.Counter
	events  []int // index in the session's events, by the part's own index
	cgroups []int // index in the session's cgroups, by the part's own index
}

// sharedPart is a part that shares counters with other sessions.
type sharedPart struct {
	counter *shared.Counter
	events  []int // as in part
}

// joiner is a counter that opens perf events on CPUs as they come online.
type joiner interface {
	// Joined returns the CPUs on which that happened while the counter was enabled.
	Joined() []int
}

// assignment is a set of groups with the cgroups (indexes) that they are counted for.
type assignment struct {
	groups  event.List
	cgroups []int
}

// openCounters opens the counters that the configuration asks for. An event that the machine lacks is not an error here: see Err.
func openCounters(cfg *Config, t target.Target, o count.Options) (*counters, error) {
	c := &counters{events: cfg.Events.Events(), target: t}
	for _, cg := range t.Cgroups {
		c.cgroups = append(c.cgroups, cg.Name)
	}
	if err := c.open(cfg, o); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// open opens the counters. On failure some may be open.
func (c *counters) open(cfg *Config, o count.Options) error {
	var own []*event.Event
	if cfg.inPrograms() {
		own = program.OwnEvents()
	}
	for i, e := range own {
		e.Term = len(c.events) + i // a term that no event of the command line has
	}
	c.events = append(c.events, own...)
	c.index = make(map[*event.Event]int, len(c.events))
	for i, e := range c.events {
		c.index[e] = i
	}
	if cfg.inPrograms() {
		return c.openPrograms(cfg, own)
	}
	for _, a := range assign(cfg, c.target) {
		if err := c.openAssignment(cfg, a, o); err != nil {
			return err
		}
	}
	return nil
}

// openAssignment opens the counters of some groups for their cgroups.
func (c *counters) openAssignment(cfg *Config, a assignment, o count.Options) error {
	t := c.target
	t.Cgroups = nil
	for _, i := range a.cgroups {
		t.Cgroups = append(t.Cgroups, c.target.Cgroups[i])
	}
	perThread := cfg.Aggregation == AggregateThread
	perf, common, tools := split(a.groups)
	if len(perf) > 0 {
		counter, err := direct.Open(perf, t, o)
		if err != nil {
			return err
		}
		c.add(counter, perf.Events(), a.cgroups)
		c.joiners = append(c.joiners, counter)
	}
	if len(common) > 0 {
		counter, err := shared.Open(cfg.Shared, common, t, shared.Options{Options: o, PerThread: perThread})
		if err != nil {
			return err
		}
		p := c.add(counter, common.Events(), a.cgroups)
		c.common = append(c.common, sharedPart{counter, p.events})
		c.joiners = append(c.joiners, counter)
	}
	// With a row per thread, inheriting would make one cell of a process.
	return c.openTools(tools, t, a.cgroups, tool.Options{Inherit: o.Inherit && !perThread})
}

// openPrograms opens the counters inside BPF programs, which also count events of their own. Tool events are opened outside of them.
func (c *counters) openPrograms(cfg *Config, own []*event.Event) error {
	perf, common, tools := split(cfg.Events)
	if err := c.openTools(tools, c.target, nil, tool.Options{}); err != nil {
		return err
	}
	inside := append(perf, common...)
	counter, err := program.Open(inside, cfg.Programs, c.target, program.Options{Sharing: cfg.sharing(len(common) > 0),
		AllUser: cfg.AllUser, AllKernel: cfg.AllKernel, Following: cfg.Follow != nil, Probes: true, Calibrate: cfg.Calibrate})
	if err != nil {
		return err
	}
	c.inside = counter
	c.add(counter, append(inside.Events(), own...), nil)
	c.namePrograms()
	return nil
}

// openTools opens the counter of tool events, if there are any.
func (c *counters) openTools(l event.List, t target.Target, cgroups []int, o tool.Options) error {
	if len(l) == 0 {
		return nil
	}
	counter, err := tool.Open(l, t, o)
	if err != nil {
		return err
	}
	c.add(counter, l.Events(), cgroups)
	c.tools = append(c.tools, counter)
	return nil
}

// add adds a part that counts these events.
func (c *counters) add(counter count.Counter, events []*event.Event, cgroups []int) part {
	p := part{Counter: counter, cgroups: cgroups}
	for _, e := range events {
		p.events = append(p.events, c.index[e])
	}
	c.parts = append(c.parts, p)
	return p
}

// sharing returns how counters inside BPF programs are shared: with every session that uses the directory, even if the user did not ask for
// sharing. With required, it is an error if nothing can be shared.
func (cfg *Config) sharing(required bool) program.Sharing {
	return program.Sharing{Dir: cfg.Shared.Dir, Required: required}
}

// namePrograms copies the names of the programs that are counted now.
func (c *counters) namePrograms() {
	c.programs = c.programs[:0]
	for _, p := range c.inside.Targets() {
		c.programs = append(c.programs, p.String())
	}
}

// assign puts together the groups that count for the same cgroups: all cgroups, or with -G one each. Groups with cgroups come first: in
// Linux 6.12 to 7.2, the time of a cgroup stops if a CPU's events without a cgroup are enabled before it.
func assign(cfg *Config, t target.Target) []assignment {
	if cfg.EventCgroups == nil {
		all := assignment{groups: cfg.Events}
		for i := range t.Cgroups {
			all.cgroups = append(all.cgroups, i)
		}
		return []assignment{all}
	}
	var list []assignment
	ev := 0
	for _, g := range cfg.Events {
		var cgroups []int
		if name := cfg.EventCgroups[ev]; name != "" {
			cgroups = []int{slices.IndexFunc(t.Cgroups, func(cg target.Cgroup) bool { return cg.Name == name })}
		}
		i := slices.IndexFunc(list, func(a assignment) bool { return slices.Equal(a.cgroups, cgroups) })
		if i < 0 {
			i = len(list)
			list = append(list, assignment{cgroups: cgroups})
		}
		list[i].groups = append(list[i].groups, g)
		ev += len(g.Events)
	}
	slices.SortStableFunc(list, func(a, b assignment) int { return len(b.cgroups) - len(a.cgroups) })
	return list
}

// split sorts the events by what counts them: perf events of this session, perf events that sessions share, and tool events, which no
// kernel counts. The events of a group stay together within each.
func split(l event.List) (perf, common, tools event.List) {
	for _, g := range l {
		var p, s, t event.Group
		for _, e := range g.Events {
			of := &p
			switch {
			case e.Tool != event.ToolNone:
				of = &t
			case e.BPF:
				of = &s
			}
			of.Events = append(of.Events, e)
		}
		p.Weak = g.Weak
		perf, common, tools = addGroup(perf, p), addGroup(common, s), addGroup(tools, t)
	}
	return perf, common, tools
}

// addGroup appends a group, unless it is empty.
func addGroup(l event.List, g event.Group) event.List {
	if len(g.Events) == 0 {
		return l
	}
	return append(l, g)
}

// enableTools enables only the tool events, because the kernel does not start those when it executes the command.
func (c *counters) enableTools() error {
	for _, t := range c.tools {
		if err := t.Enable(); err != nil {
			return err
		}
	}
	return nil
}

// finish passes the command's CPU time to the tool events.
func (c *counters) finish(command target.Status) {
	for _, t := range c.tools {
		t.Finish(command.User, command.System)
	}
}

func (c *counters) Enable() error  { return c.each(count.Counter.Enable) }
func (c *counters) Disable() error { return c.each(count.Counter.Disable) }
func (c *counters) Close() error   { return c.each(count.Counter.Close) }

func (c *counters) each(f func(count.Counter) error) error {
	var errs []error
	for _, p := range c.parts {
		errs = append(errs, f(p.Counter))
	}
	return errors.Join(errs...)
}

// Read reads all parts, and returns cells with the session's indexes.
func (c *counters) Read(dst []count.Cell) ([]count.Cell, error) {
	for _, p := range c.parts {
		start := len(dst)
		var err error
		if dst, err = p.Counter.Read(dst); err != nil {
			return nil, err
		}
		for i := start; i < len(dst); i++ {
			dst[i].Event = p.events[dst[i].Event]
			if dst[i].Cgroup != count.None {
				dst[i].Cgroup = p.cgroups[dst[i].Cgroup]
			}
		}
	}
	return dst, nil
}

// joined returns the CPUs on which events were opened while the session was counting, in order.
func (c *counters) joined() []int {
	var cpus []int
	for _, counter := range c.joiners {
		cpus = append(cpus, counter.Joined()...)
	}
	slices.Sort(cpus)
	return slices.Compact(cpus)
}

// Err returns the reason why the machine cannot count an event, or nil if it can.
func (c *counters) Err(ev int) error {
	p := c.part(ev)
	return p.Err(slices.Index(p.events, ev))
}

// errAt returns the reason why the machine cannot count an event in a BPF program, or at all if the program is count.None. It returns nil
// if it can.
func (c *counters) errAt(ev, program int) error {
	if program == count.None {
		return c.Err(ev)
	}
	return c.inside.ErrAt(slices.Index(c.part(ev).events, ev), program)
}

// part returns the part that counts an event.
func (c *counters) part(ev int) part {
	return c.parts[slices.IndexFunc(c.parts, func(p part) bool { return slices.Contains(p.events, ev) })]
}

// rows returns, for each event, the index of the event that leads its row, and the row's name. The events of one name that one term of the
// command line stands for share a row, which the first of them leads. With noMerge, each has its own row, and its name shows its PMU.
func (c *counters) rows(noMerge bool) (leaders []int, names []string) {
	type key struct {
		term int
		name string
	}
	same := make(map[key][]int)
	for i, e := range c.events {
		k := key{e.Term, e.Name}
		same[k] = append(same[k], i)
	}
	for i, e := range c.events {
		leader, name := i, e.Name
		switch all := same[key{e.Term, e.Name}]; {
		case !noMerge:
			leader = all[0]
		case len(all) > 1:
			name += " [" + e.PMU + "]"
		}
		leaders, names = append(leaders, leader), append(names, name)
	}
	return leaders, names
}

// places returns where an event would count if the machine could count it: one cell per place of the aggregation, and per cgroup or BPF
// program.
func (c *counters) places(ev int, by Aggregation) []count.Cell {
	nowhere := count.Cell{Event: ev, CPU: count.None, Thread: count.None, Cgroup: count.None, Program: count.None}
	places := []count.Cell{nowhere}
	switch by {
	case AggregateGlobal:
	case AggregateThread:
		places = repeat(nowhere, len(c.target.Threads), func(cell *count.Cell, i int) { cell.Thread = i })
	default:
		places = repeat(nowhere, len(c.target.CPUs), func(cell *count.Cell, i int) { cell.CPU = c.target.CPUs[i] })
	}
	p := c.part(ev)
	if p.Counter == count.Counter(c.inside) {
		return each(places, len(c.programs), func(cell *count.Cell, i int) { cell.Program = i })
	}
	if len(p.cgroups) == 0 {
		return places
	}
	return each(places, len(p.cgroups), func(cell *count.Cell, i int) { cell.Cgroup = p.cgroups[i] })
}

// each repeats every cell n times, and lets differ change each copy.
func each(cells []count.Cell, n int, differ func(*count.Cell, int)) (all []count.Cell) {
	for _, cell := range cells {
		all = append(all, repeat(cell, n, differ)...)
	}
	return all
}

// repeat returns n copies of a cell, each changed by differ.
func repeat(cell count.Cell, n int, differ func(*count.Cell, int)) []count.Cell {
	cells := make([]count.Cell, n)
	for i := range cells {
		cells[i] = cell
		differ(&cells[i], i)
	}
	return cells
}
