package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bperf/bperf/internal/config"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/metric"
	"github.com/bperf/bperf/internal/stat"
)

// eventArg is an option that adds events, or applies to the events before it.
type eventArg struct {
	kind  argKind
	value string
}

type argKind string

const (
	argEvents  argKind = "-e"
	argMetrics argKind = "-M"
	argCgroups argKind = "-G"
	argFilter  argKind = "--filter"
	argProgram argKind = "--prog"
	argExclude argKind = "--exclude-perf"
)

// eventFlag is a flag that records its position among all options that are eventArgs.
type eventFlag struct {
	args *[]eventArg
	kind argKind
}

func (f eventFlag) String() string { return "" }
func (f eventFlag) Type() string   { return "LIST" }

func (f eventFlag) Set(value string) error {
	if strings.TrimSpace(value) == "" {
		return errors.New("the list is empty")
	}
	*f.args = append(*f.args, eventArg{f.kind, value})
	return nil
}

// excludeFlag is the switch --exclude-perf. It records its position like an eventFlag.
type excludeFlag struct{ args *[]eventArg }

func (f excludeFlag) String() string { return "" }
func (f excludeFlag) Type() string   { return "bool" }

func (f excludeFlag) Set(value string) error {
	on, err := strconv.ParseBool(value)
	if on {
		*f.args = append(*f.args, eventArg{kind: argExclude})
	}
	return err
}

// chooseEvents sets the events, and with -G their cgroups.
func (o *statOptions) chooseEvents(cfg *stat.Config, conf *config.Config, note func(string)) error {
	c := chosenEvents{machine: hostWith(o.eventFiles, note)}
	c.metrics = metricChooser{machine: c.machine, options: o.metrics, note: note,
		session: metric.Session{System: cfg.Target.System, CPUs: cfg.Target.CPUs}}
	if o.cpuType != "" {
		if err := c.machine.OnlyCore(o.cpuType); err != nil {
			return badOptionf("--cputype: %w", err)
		}
	}
	for _, a := range o.events {
		if err := c.add(a); err != nil {
			return badOption(err)
		}
	}
	if err := o.addTopdown(&c); err != nil {
		return err
	}
	cfg.Defaults = len(c.list) == 0 && !o.null
	names := stat.DetailedEvents(o.detailed)
	if cfg.Defaults {
		names = stat.DefaultEvents(o.detailed, cfg.Target.System || cfg.Target.CPUs != nil)
	}
	for _, name := range names {
		if err := c.parse(name); err != nil {
			return err
		}
	}
	if cfg.Defaults && o.hasDefaultMetrics() {
		if err := c.addDefaultMetrics(); err != nil {
			return err
		}
	}
	cfg.Events, cfg.Vendor, o.namedMetrics = c.list, c.vendor, c.named
	always := conf.List(configSharedEvents)
	shares := false
	for _, e := range c.list.Events() {
		if e.Filter != "" && e.PMU != "tracepoint" {
			return badOptionf("--filter applies to the tracepoint before it, but %s is not a tracepoint", e.Name)
		}
		e.BPF = e.BPF || o.bpfCounters || o.programs == "" && slices.Contains(always, e.Name)
		shares = shares || e.BPF
	}
	if o.bpfAttrMap != "" && !shares {
		return badCombinationf("--bpf-attr-map is for shared counters: add --bpf-counters, or the modifier b to an event")
	}
	if c.cgroups == nil {
		return nil
	}
	var err error
	cfg.EventCgroups, cfg.Target.Cgroups, err = c.cgroupsOf()
	return err
}

// chosenEvents is the list of events while the options build it.
type chosenEvents struct {
	machine *event.Machine
	metrics metricChooser
	named   []string            // metrics of -M
	vendor  *stat.VendorMetrics // those of the CPU's vendor; nil for none
	list    event.List
	terms   int      // number of terms so far
	cgroups []string // of each event; nil before the first -G
	program string   // for events without their own program; or empty
}

func (c *chosenEvents) add(a eventArg) error {
	switch a.kind {
	case argEvents:
		return c.parse(a.value)
	case argMetrics:
		return c.addMetrics(a.value)
	case argCgroups:
		return c.setCgroups(a.value)
	case argProgram:
		return c.setProgram(a.value)
	case argExclude:
		return c.excludeSelf()
	default:
		return c.setFilter(a.value)
	}
}

func (c *chosenEvents) parse(names string) error {
	list, err := c.machine.Parse(names)
	if err != nil {
		return err
	}
	last := c.terms
	for _, e := range list.Events() {
		e.Term += c.terms
		last = max(last, e.Term+1)
	}
	c.terms = last
	c.list = append(c.list, list...)
	return nil
}

// setCgroups sets the cgroups of the events before it. A single name applies to all events without a cgroup; several names apply to them
// one by one. An empty name means no cgroup.
func (c *chosenEvents) setCgroups(value string) error {
	events := c.list.Events()
	if len(events) == 0 {
		return errors.New("-G names the cgroups of the events before it: give -e first")
	}
	names := strings.Split(value, ",")
	done := len(c.cgroups)
	if len(names) > len(events)-done {
		return fmt.Errorf("-G %s: %d cgroups for %d events without a cgroup", value, len(names), len(events)-done)
	}
	c.cgroups = append(c.cgroups, make([]string, len(events)-done)...)
	if len(names) == 1 {
		for i := done; i < len(events); i++ {
			c.cgroups[i] = names[0]
		}
		return nil
	}
	copy(c.cgroups[done:], names)
	return nil
}

// lastTerm returns the events of the last term.
func (c *chosenEvents) lastTerm() (of []*event.Event) {
	events := c.list.Events()
	for _, e := range events {
		if e.Term == events[len(events)-1].Term {
			of = append(of, e)
		}
	}
	return of
}

// excludeSelf excludes bperf itself from the samples of the last term, which must be tracepoints.
func (c *chosenEvents) excludeSelf() error {
	last := c.lastTerm()
	if len(last) == 0 || last[0].Tracepoint == "" {
		return errors.New("--exclude-perf applies to the tracepoint before it: give -e with a tracepoint first")
	}
	for _, e := range last {
		e.ExcludeSelf = true
	}
	return nil
}

// setFilter adds a filter to the events of the last term.
func (c *chosenEvents) setFilter(value string) error {
	if len(c.list) == 0 {
		return errors.New("--filter applies to the event before it: give -e first")
	}
	for _, e := range c.lastTerm() {
		if e.Filter != "" {
			value = "(" + e.Filter + ") && (" + value + ")"
		}
		e.Filter = value
	}
	return nil
}

// setProgram sets the program that runs at samples of the earlier events without one. A program before all events applies to every event
// without another program.
func (c *chosenEvents) setProgram(source string) error {
	if len(c.list) > 0 {
		return c.runProgram(source)
	}
	if c.program != "" {
		return fmt.Errorf("--prog %s and --prog %s are for the same events: give -e before the second one", c.program, source)
	}
	c.program = source
	return nil
}

// runProgram sets the program of the events without one.
func (c *chosenEvents) runProgram(source string) error {
	set := false
	for _, e := range c.list.Events() {
		switch {
		case e.Program != "":
		case e.Tracepoint != "":
			return fmt.Errorf("--prog %s: %s is a tracepoint, at which programs of another type run: write one in a section \"tracepoint/%s\"",
				source, e.Name, strings.ReplaceAll(e.Tracepoint, ":", "/"))
		default:
			e.Program, set = source, true
		}
	}
	if !set {
		return fmt.Errorf("--prog %s: all events already have another program", source)
	}
	return nil
}

// cgroupsOf returns the cgroup of each event, empty for none, and all cgroups in the order of their first event.
func (c *chosenEvents) cgroupsOf() (ofEvents, names []string, err error) {
	ofEvents = append(c.cgroups, make([]string, len(c.list.Events())-len(c.cgroups))...)
	for _, name := range ofEvents {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	first := 0
	for _, g := range c.list {
		of := ofEvents[first : first+len(g.Events)]
		if i := slices.IndexFunc(of, func(name string) bool { return name != of[0] }); i >= 0 {
			return nil, nil, badCombinationf(
				"-G: %s and %s are in one group and cannot belong to different cgroups", g.Events[0].Name, g.Events[i].Name)
		}
		first += len(g.Events)
	}
	return ofEvents, names, nil
}
