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
	target   target.Target // the session's; its cgroups are the union over all parts
	cgroups  []string      // names of the cgroups
	parts    []part
	tools    []*tool.Counter  // the parts that count tool events
	inside   *program.Counter // the part that counts in BPF programs, or nil
	programs []string         // names of the BPF programs
}

// part is a counter for some of the session's events.
type part struct {
	count.Counter
	events  []int // index in the session's events, by the part's own index
	cgroups []int // index in the session's cgroups, by the part's own index
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
	if cfg.inPrograms() {
		return c, c.openPrograms(cfg, t, o)
	}
	index := make(map[*event.Event]int, len(c.events))
	for i, e := range c.events {
		index[e] = i
	}
	toolOptions := o
	toolOptions.Inherit = o.Inherit && !o.PerThread // otherwise a process would be one cell
	for _, a := range assign(cfg, t) {
		of := t
		of.Cgroups = nil
		for _, i := range a.cgroups {
			of.Cgroups = append(of.Cgroups, t.Cgroups[i])
		}
		perf, common, tools := split(a.groups)
		if err := c.open(index, a.cgroups, perf, func(l event.List) (count.Counter, error) {
			return direct.Open(l, of, o)
		}); err != nil {
			return nil, err
		}
		if err := c.open(index, a.cgroups, common, func(l event.List) (count.Counter, error) {
			return shared.Open(cfg.Shared, l, of, o)
		}); err != nil {
			return nil, err
		}
		if err := c.open(index, a.cgroups, tools, func(l event.List) (count.Counter, error) {
			t, err := tool.Open(l, of, toolOptions)
			c.tools = append(c.tools, t)
			return t, err
		}); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// openPrograms opens the counters inside BPF programs. Tool events are opened outside of them.
func (c *counters) openPrograms(cfg *Config, t target.Target, o count.Options) error {
	perf, common, tools := split(cfg.Events)
	inside := append(perf, common...)
	index := make(map[*event.Event]int, len(c.events))
	own := program.OwnEvents()
	for i, e := range own {
		e.Term = len(c.events) + i // a term that no event of the command line has
	}
	c.events = append(c.events, own...)
	for i, e := range c.events {
		index[e] = i
	}
	if err := c.open(index, nil, tools, func(l event.List) (count.Counter, error) {
		t, err := tool.Open(l, t, o)
		c.tools = append(c.tools, t)
		return t, err
	}); err != nil {
		return err
	}
	var err error
	if c.inside, err = program.Open(inside, cfg.Programs, t, program.Options{Options: o, Sharing: cfg.sharing(len(common) > 0),
		Following: cfg.Follow != nil, Probes: true, Calibrate: cfg.Calibrate}); err != nil {
		return errors.Join(err, c.Close())
	}
	c.namePrograms()
	p := part{Counter: c.inside}
	for _, e := range append(inside.Events(), own...) {
		p.events = append(p.events, index[e])
	}
	c.parts = append(c.parts, p)
	return nil
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

// open adds a part, unless it has no events. On failure it closes the parts that are open already.
func (c *counters) open(index map[*event.Event]int, cgroups []int, l event.List, open func(event.List) (count.Counter, error)) error {
	if len(l) == 0 {
		return nil
	}
	counter, err := open(l)
	if err != nil {
		return errors.Join(err, c.Close())
	}
	p := part{Counter: counter, cgroups: cgroups}
	for _, e := range l.Events() {
		p.events = append(p.events, index[e])
	}
	c.parts = append(c.parts, p)
	return nil
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
		perf, common, tools = add(perf, p), add(common, s), add(tools, t)
	}
	return perf, common, tools
}

// add appends a group, unless it is empty.
func add(l event.List, g event.Group) event.List {
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
	for _, p := range c.parts {
		if counter, ok := p.Counter.(interface{ Joined() []int }); ok {
			cpus = append(cpus, counter.Joined()...)
		}
	}
	slices.Sort(cpus)
	return slices.Compact(cpus)
}

// sharedPart is a part that shares counters with other sessions.
type sharedPart struct {
	counter *shared.Counter
	events  []int
}

func (c *counters) shared() (all []sharedPart) {
	for _, p := range c.parts {
		if counter, ok := p.Counter.(*shared.Counter); ok {
			all = append(all, sharedPart{counter, p.events})
		}
	}
	return all
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
