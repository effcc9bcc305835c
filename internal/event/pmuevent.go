package event

import (
	"slices"
	"strings"

	"github.com/bperf/bperf/perfdata"
)

// onPMUs finds the events of PMU/terms/. If the name matches several PMUs, onPMUs skips those without
// the event.
func (p *parser) onPMUs(t *term) ([]Event, error) {
	pmus, err := p.m.matchPMUs(t.head)
	if err == errNoPMU {
		return nil, p.failNearest(t.pos, t.head, p.m.pmuCandidates, "this machine has no PMU %s", t.head)
	}
	if err != nil {
		return nil, p.fail(t.pos, "%w", err)
	}
	var events []Event
	var first error
	for _, u := range pmus {
		e, err := p.onPMU(t, u)
		if err == nil {
			events = append(events, e)
		} else if first == nil {
			first = err
		}
	}
	if len(events) == 0 {
		return nil, first
	}
	return events, nil
}

// onPMU returns the event on one PMU.
func (p *parser) onPMU(t *term, u *pmu) (Event, error) {
	e := Event{Name: t.name, PMU: u.name, Attr: perfdata.Attr{Type: u.typ}, CPUs: u.cpus, Uncore: u.uncore, Scale: 1}
	var rest []param
	for _, a := range t.params {
		ok, err := p.commonParam(&e, a)
		if err != nil {
			return Event{}, err
		}
		if !ok {
			rest = append(rest, a)
		}
	}
	if len(rest) == 1 && !rest[0].hasValue {
		if ok, err := p.genericOn(&e, u, rest[0]); ok || err != nil {
			return e, err
		}
	}
	err := p.applyParams(&e, u, rest)
	scaleClock(&e)
	return e, err
}

// genericOn sets e to the generic event with the term's name, as in cpu_core/cycles/, unless the
// PMU itself has an event or format of that name. It reports whether it did.
func (p *parser) genericOn(e *Event, u *pmu, a param) (bool, error) {
	generic, ok := genericNamed(u, a.key)
	if !ok {
		return false, nil
	}
	if _, has, err := u.alias(a.key); has || err != nil {
		return false, p.wrap(a.pos, err)
	}
	if _, has, err := u.format(a.key); has || err != nil {
		return false, p.wrap(a.pos, err)
	}
	e.Attr.Type, e.Attr.Config = generic.Attr.Type, generic.Attr.Config
	if u.core && len(p.m.corePMUs()) > 1 {
		e.Attr.Config |= uint64(u.typ) << perfdata.PMUTypeShift
	}
	scaleClock(e)
	return true, nil
}

// genericNamed returns the generic event of this name if the PMU counts it.
func genericNamed(u *pmu, name string) (Event, bool) {
	if g, ok := findGeneric(name); ok && (u.core && g.kind == Hardware || u.name == "software" && g.kind == Software) {
		return g.event(), true
	}
	if c, ok := parseCache(name); ok && u.core && c.possible() {
		return c.event(), true
	}
	return Event{}, false
}

// wrap adds a position to an error from sysfs.
func (p *parser) wrap(pos int, err error) error {
	if err == nil {
		return nil
	}
	return p.fail(pos, "%w", err)
}

// applyParams applies config, config1 … first, then the event file, then the PMU's own terms, in any written order:
// the more specific term wins.
func (p *parser) applyParams(e *Event, u *pmu, params []param) error {
	var own []param
	var alias param
	var found source
	for _, a := range params {
		if i := slices.Index(configNames, a.key); i >= 0 {
			n, err := p.number(a)
			if err != nil {
				return err
			}
			*configField(&e.Attr, i) = n
			continue
		}
		of, has, err := u.source(a)
		switch {
		case err != nil:
			return p.fail(a.pos, "%w", err)
		case !has:
			own = append(own, a)
		case a.hasValue:
			return p.fail(a.valuePos, "%s is an event of %s and has no value", a.key, u.name)
		case alias.key != "":
			return p.fail(a.pos, "%s and %s are two events of %s", alias.key, a.key, u.name)
		default:
			alias, found = a, of
		}
	}
	if alias.key != "" {
		if err := p.applyAlias(e, u, alias, found, own); err != nil {
			return err
		}
	}
	for _, a := range own {
		if err := p.applyOwn(e, u, a); err != nil {
			return err
		}
	}
	return nil
}

// applyOwn applies a term of the PMU's format directory, or rNNN.
func (p *parser) applyOwn(e *Event, u *pmu, a param) error {
	f, ok, err := u.format(a.key)
	if err != nil {
		return p.fail(a.pos, "%w", err)
	}
	if !ok {
		if config, raw := parseRaw(a.key); raw && !a.hasValue {
			e.Attr.Config = config
			return nil
		}
		return p.unknownParam(u, a)
	}
	value := uint64(1)
	if a.hasValue {
		if value, err = p.number(a); err != nil {
			return err
		}
	}
	if value > f.max() {
		return p.fail(a.valuePos, "%s is too great: %s of %s is at most %#x", a.value, a.key, u.name, f.max())
	}
	f.set(&e.Attr, value)
	return nil
}

func (p *parser) unknownParam(u *pmu, a param) error {
	terms := append(u.formats(), configNames...)
	terms = append(terms, commonParams...)
	all := func() []candidate {
		if a.hasValue {
			return candidates(terms)
		}
		return slices.Concat(candidates(terms), candidates(u.aliases()), u.vendorCandidates())
	}
	if _, ok := genericNamed(u, a.key); ok && !a.hasValue {
		return p.fail(a.pos, "%s is a generic event: no other terms of %s can be with it", a.key, u.name)
	}
	what := "event or term"
	if a.hasValue {
		what = "term"
	}
	return p.failNearest(a.pos, a.key, all, "%s has no %s %s; its terms are %s", u.name, what, a.key, strings.Join(terms, ", "))
}

func (p *parser) unknownEvent(t *term) error {
	if _, err := p.m.pmu(t.head); err == nil {
		return p.isPMU(t)
	}
	return p.failNearest(t.pos, t.head, p.m.allCandidates, "there is no event %s", t.head)
}

func (p *parser) isPMU(t *term) error {
	return p.fail(t.pos, "%s is a PMU; its events are written %s/EVENT/", t.head, t.head)
}
