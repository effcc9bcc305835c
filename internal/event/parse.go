package event

import (
	"slices"
	"strings"
)

// maxEvents is the limit of events in one list: "*:*" is a few thousand tracepoints, and a list can repeat it.
const maxEvents = 1 << 16

// parser finds the events of a machine that one or more inputs name.
type parser struct {
	scanner
	m    *Machine
	term int // number of terms so far, over all inputs
	size int // number of events so far, over all inputs
}

// Parse parses a list of events in perf's syntax, as for the option -e.
// An error is a *syntaxError.
func (m *Machine) Parse(s string) (List, error) { return m.parseAll([]string{s}) }

// parseAll is Parse for several options -e.
func (m *Machine) parseAll(ss []string) (List, error) {
	p := parser{m: m}
	var all List
	for _, s := range ss {
		p.in, p.pos = s, 0
		list, err := p.list()
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	return all, nil
}

// list parses the whole input.
func (p *parser) list() (List, error) {
	var list List
	for {
		p.skipSpace()
		groups, err := p.item()
		if err != nil {
			return nil, err
		}
		list = append(list, groups...)
		p.skipSpace()
		if p.end() {
			return list, nil
		}
		if !p.skip(',') {
			return nil, p.fail(p.pos, "expected a comma or the end, not %q", p.rune())
		}
	}
}

// item parses an event or a group.
func (p *parser) item() ([]Group, error) {
	start := p.pos
	if name := p.word(); p.skip('{') { // a group can have a name, which bperf does not print
		if strings.Trim(name, "_-.0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
			return nil, p.fail(start, "%q is no name for a group", name)
		}
		return p.group()
	}
	p.pos = start
	t, err := p.event()
	if err != nil {
		return nil, err
	}
	// If one term matches several PMUs or tracepoints, each event is a group of its own.
	var groups []Group
	for _, e := range t.events {
		t.mods.apply(e)
		t.mods.applyLeader(e)
		groups = append(groups, Group{Events: []*Event{e}, Weak: t.mods.has("W")})
	}
	return groups, nil
}

// group parses a group after its opening brace.
func (p *parser) group() ([]Group, error) {
	open := p.pos - 1
	var terms []*term
	for {
		p.skipSpace()
		start := p.pos
		if p.word(); p.at('{') {
			return nil, p.fail(p.pos, "a group cannot be in a group")
		}
		p.pos = start
		t, err := p.event()
		if err != nil {
			return nil, err
		}
		if len(terms) > 0 && t.mods.has("De") {
			return nil, p.fail(t.pos, "only the first event of a group can be pinned (D) or exclusive (e)")
		}
		terms = append(terms, t)
		p.skipSpace()
		if p.skip('}') {
			break
		}
		if p.end() {
			return nil, p.fail(open, "the group is not closed with a brace")
		}
		if !p.skip(',') {
			return nil, p.fail(p.pos, "expected a comma or a closing brace, not %q", p.rune())
		}
	}
	var mods modifiers
	if p.skip(':') {
		var err error
		pos := p.pos
		if mods, err = p.modifiers(p.word(), pos); err != nil {
			return nil, err
		}
	}
	return p.arrange(terms, mods)
}

// arrange returns the groups for the terms between two braces. If a term has events on several PMUs,
// there is one group for each PMU, because a group cannot span PMUs.
func (p *parser) arrange(terms []*term, mods modifiers) ([]Group, error) {
	var groups []Group
	var pmus []string // PMU of each group; empty while no event binds the group to one
	split := slices.ContainsFunc(terms, func(t *term) bool { return t.spansPMUs() })
	place := func(t *term, e *Event) error {
		pmu := p.m.groupPMU(e)
		i := slices.IndexFunc(pmus, func(have string) bool { return pmu == "" || have == "" || have == pmu })
		if i < 0 && len(groups) > 0 && !split {
			return p.fail(t.pos, "a group counts on one PMU: this event is of %s, the group of %s", pmu, pmus[0])
		}
		if i < 0 {
			i = len(groups)
			groups, pmus = append(groups, Group{}), append(pmus, pmu)
		}
		if pmus[i] == "" {
			pmus[i] = pmu
		}
		groups[i].Events = append(groups[i].Events, e)
		return nil
	}
	for _, t := range terms {
		all := t.mods.with(mods)
		for _, e := range t.events {
			all.apply(e)
			if err := place(t, e); err != nil {
				return nil, err
			}
		}
	}
	first := terms[0].mods.with(mods)
	weak := mods.has("W") || slices.ContainsFunc(terms, func(t *term) bool { return t.mods.has("W") })
	for i := range groups {
		// A tool event cannot be the leader.
		if j := slices.IndexFunc(groups[i].Events, func(e *Event) bool { return e.Tool == ToolNone }); j >= 0 {
			first.applyLeader(groups[i].Events[j])
		}
		groups[i].Weak = weak
	}
	return groups, nil
}

// groupPMU returns the PMU that the event binds its group to, or "". The kernel accepts software events, and events of
// PMUs that are neither core nor uncore, in any group.
func (m *Machine) groupPMU(e *Event) string {
	if e.Uncore || e.PMU == "cpu" {
		return e.PMU
	}
	if p, ok := m.pmus[e.PMU]; ok && p.core {
		return e.PMU
	}
	return ""
}
