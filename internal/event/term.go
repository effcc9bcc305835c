package event

import (
	"slices"
	"strings"

	"github.com/bperf/bperf/perfdata"
)

// term is an event as the user wrote it, with the events that it matches.
type term struct {
	pos    int    // of the event in the input
	name   string // as written, without spaces
	head   string // the text before the first separator
	params []param
	slash  bool // the event has slashes, perhaps without params between them
	mods   modifiers
	events []*Event
}

func (t *term) spansPMUs() bool {
	return slices.ContainsFunc(t.events, func(e *Event) bool { return e.PMU != t.events[0].PMU })
}

// event parses one event and finds the events that it matches.
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
	if p.m.filesErr != nil {
		return nil, p.fail(t.pos, "%w", p.m.filesErr)
	}
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

func (s *scanner) missing() error {
	if s.end() {
		return s.fail(s.pos, "an event is missing here")
	}
	return s.fail(s.pos, "an event is missing before this %q", s.rune())
}

// form chooses the kind of event by the term's head and parses the syntax that only this kind has.
// It returns the function that finds the events.
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

// eventModifiers parses the modifiers of an event: after a colon, or directly after a slash.
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

// generic returns the events for a name without a PMU: one for each kind of core.
func (p *parser) generic(t *term, e Event) ([]Event, error) {
	e.Name = t.name
	named := false
	for _, a := range t.params {
		ok, err := p.commonParam(&e, a)
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, p.failNearest(a.pos, a.key, func() []candidate { return candidates(commonParams) },
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

// onCores returns e for each core PMU of the machine. With several core PMUs, a generic event has the PMU's type in its
// config, and a raw event has it as its own type.
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
		if m.excludes(core) {
			continue
		}
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

// onPMU returns the name of the term's event on one of several PMUs.
func (t *term) onPMU(core *pmu) string {
	parts := []string{t.head}
	for _, a := range t.params {
		parts = append(parts, a.String())
	}
	return core.name + "/" + strings.Join(parts, ",") + "/" + string(t.mods)
}

// scaleClock sets perf's unit, msec, for the clock events, which the kernel counts in nanoseconds.
func scaleClock(e *Event) {
	const cpuClock, taskClock = 0, 1
	if e.Attr.Type == perfdata.TypeSoftware && (e.Attr.Config == cpuClock || e.Attr.Config == taskClock) {
		e.Scale, e.Unit = 1e-6, "msec"
	}
}

// numeric parses TYPE:CONFIG, the fields of struct perf_event_attr.
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
