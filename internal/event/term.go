package event

import (
	"slices"
	"strings"

	"github.com/bperf/bperf/perfdata"
)

// term is an event as it was written, and what it stands for.
type term struct {
	pos    int    // of the event in the input
	name   string // as written
	head   string // what comes before the first separator
	params []param
	slash  bool // params were given, if none
	mods   modifiers
	events []*Event
}

func (t *term) spansPMUs() bool {
	return slices.ContainsFunc(t.events, func(e *Event) bool { return e.PMU != t.events[0].PMU })
}

// event reads one event and finds what it stands for.
func (p *parser) event() (*term, error) {
	t := &term{pos: p.pos}
	if t.head = p.word(); t.head == "" {
		return nil, p.missing()
	}
	find, err := p.form(t)
	if err != nil {
		return nil, err
	}
	if err := p.params(t); err != nil {
		return nil, err
	}
	if err := p.eventModifiers(t); err != nil {
		return nil, err
	}
	t.name = strings.Join(strings.Fields(p.in[t.pos:p.pos]), "")
	events, err := find(t)
	if err != nil {
		return nil, err
	}
	if p.size += len(events); p.size > maxEvents {
		return nil, p.fail(t.pos, "these are more than %d events", maxEvents)
	}
	for i := range events {
		events[i].Term = p.term
		t.events = append(t.events, &events[i])
	}
	p.term++
	return t, nil
}

func (p *parser) missing() error {
	if p.end() {
		return p.fail(p.pos, "an event is missing here")
	}
	return p.fail(p.pos, "an event is missing before this %q", p.rune())
}

// form tells by its head what kind of event it is, reads what only that kind has, and returns what
// finds the events.
func (p *parser) form(t *term) (func(*term) ([]Event, error), error) {
	if t.head == "mem" && p.at(':') {
		return p.breakpoint(t)
	}
	if g, ok := findGeneric(t.head); ok {
		return func(t *term) ([]Event, error) { return p.generic(t, g.event()) }, nil
	}
	if c, ok := parseCache(t.head); ok {
		if !c.possible() {
			return nil, p.fail(t.pos, "there is no such thing as a %s of %s", cacheOps[c.op][0], cacheNames[c.cache][0])
		}
		return func(t *term) ([]Event, error) { return p.generic(t, c.event()) }, nil
	}
	if config, ok := parseRaw(t.head); ok {
		e := Event{PMU: "cpu", Scale: 1, Attr: perfdata.Attr{Type: perfdata.TypeRaw, Config: config}}
		return func(t *term) ([]Event, error) { return p.generic(t, e) }, nil
	}
	if p.at('/') {
		return p.onPMUs, nil
	}
	if !p.at(':') {
		return p.bareAlias, nil
	}
	colon := p.pos
	p.pos++
	second, secondPos := p.word(), colon+1
	if strings.Trim(t.head, "0123456789") == "" {
		return p.numeric(t, second, secondPos)
	}
	if (isModifiers(second) || second == "") && len(p.m.withAlias(t.head)) > 0 {
		p.pos = colon
		return p.bareAlias, nil
	}
	return func(t *term) ([]Event, error) { return p.tracepoints(t, second, secondPos) }, nil
}

// eventModifiers reads the letters behind an event: after a colon, or at once after a slash.
func (p *parser) eventModifiers(t *term) (err error) {
	if !p.skip(':') && (!t.slash || p.end() || strings.IndexByte(",{}/=:"+space, p.in[p.pos]) >= 0) {
		return nil
	}
	pos := p.pos
	t.mods, err = p.modifiers(p.word(), pos)
	if err != nil {
		return err
	}
	if g, ok := findGeneric(t.head); ok && g.kind == ToolEvent {
		return p.fail(pos, "%s is not counted by a PMU and has no modifiers", t.head)
	}
	return nil
}

// generic is an event that is named without a PMU: one for each kind of core.
func (p *parser) generic(t *term, e Event) ([]Event, error) {
	e.Name = t.name
	named := false
	for _, a := range t.params {
		ok, err := p.commonParam(&e, a)
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, p.failNearest(a.pos, a.key, candidates(commonParams),
				"%s has no term %s; its terms are %s", t.head, a.key, strings.Join(commonParams, ", "))
		}
		named = named || a.key == "name"
	}
	scaleClock(&e)
	switch e.Attr.Type {
	case perfdata.TypeHardware, perfdata.TypeHWCache, perfdata.TypeRaw:
		if e.Tool == ToolNone {
			return p.m.onCores(t, e, named), nil
		}
	}
	return []Event{e}, nil
}

// onCores puts an event on the machine's cores. Where they are of several kinds, the event is one on
// each: a generic one names its PMU in the config, a raw one is of the PMU's type.
func (m *Machine) onCores(t *term, e Event, named bool) []Event {
	cores := m.corePMUs()
	if len(cores) == 0 {
		return []Event{e}
	}
	if len(cores) == 1 {
		e.PMU = cores[0].name
		return []Event{e}
	}
	var events []Event
	for _, core := range cores {
		one := e
		one.PMU, one.CPUs = core.name, core.cpus
		if one.Attr.Type == perfdata.TypeRaw {
			one.Attr.Type = core.typ
		} else {
			one.Attr.Config |= uint64(core.typ) << perfdata.PMUTypeShift
		}
		if !named {
			one.Name = t.onPMU(core)
		}
		events = append(events, one)
	}
	return events
}

// onPMU is the name of a term's event on one of several PMUs.
func (t *term) onPMU(core *pmu) string {
	parts := []string{t.head}
	for _, a := range t.params {
		parts = append(parts, a.String())
	}
	return core.name + "/" + strings.Join(parts, ",") + "/" + string(t.mods)
}

// scaleClock gives the clocks, which the kernel counts in nanoseconds, perf's unit.
func scaleClock(e *Event) {
	const cpuClock, taskClock = 0, 1
	if e.Attr.Type == perfdata.TypeSoftware && (e.Attr.Config == cpuClock || e.Attr.Config == taskClock) {
		e.Scale, e.Unit = 1e-6, "msec"
	}
}

// numeric is TYPE:CONFIG, as in struct perf_event_attr.
func (p *parser) numeric(t *term, config string, configPos int) (func(*term) ([]Event, error), error) {
	typ, ok := parseNumber(t.head)
	if !ok || typ > 1<<32-1 {
		return nil, p.fail(t.pos, "%s is not a type of events: it is a number of 32 bits", t.head)
	}
	n, ok := parseNumber(config)
	if !ok {
		return nil, p.fail(configPos, "%q is not a number of 64 bits", config)
	}
	e := Event{PMU: "cpu", Scale: 1, Attr: perfdata.Attr{Type: uint32(typ), Config: n}}
	switch typ {
	case perfdata.TypeHardware, perfdata.TypeHWCache, perfdata.TypeRaw:
		return func(t *term) ([]Event, error) { return p.generic(t, e) }, nil
	}
	for _, name := range p.m.pmuNames() {
		if u, err := p.m.pmu(name); err == nil && u.typ == e.Attr.Type {
			e.PMU, e.CPUs, e.Uncore = u.name, u.cpus, u.uncore
			return func(t *term) ([]Event, error) { return p.generic(t, e) }, nil
		}
	}
	return nil, p.fail(t.pos, "no PMU of this machine has type %d", typ)
}
