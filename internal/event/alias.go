package event

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bperf/bperf/internal/event/vendor"
)

// source is what defines an event of a PMU: its file in sysfs, the vendor's table, or both.
type source struct {
	terms  string
	vendor *vendor.Event // nil if the table has no such event
	file   bool          // sysfs has the event
}

// source finds what defines the event that a is the name of. As in perf 7.2, the vendor's encoding hides that of an event file of the same
// name. The vendor's table is not touched for terms.
func (p *pmu) source(a param) (s source, ok bool, err error) {
	if s.terms, s.file, err = p.alias(a.key); err != nil || a.hasValue {
		return s, s.file, err
	}
	if !s.file {
		if _, is, err := p.format(a.key); is || err != nil {
			return s, false, nil
		}
	}
	if e, ok := p.vendorEvent(a.key); ok {
		s.terms, s.vendor = e.Terms, &e
	}
	return s, s.file || s.vendor != nil, nil
}

// applyAlias applies what defines an event, and describes its value. If a term of it has the value "?", the user must give its value.
func (p *parser) applyAlias(e *Event, u *pmu, alias param, of source, own []param) error {
	broken := func(err error) error {
		whose := "its file says"
		if of.vendor != nil {
			whose = "its vendor says"
		}
		return p.fail(alias.pos, "event %s of %s cannot be used, %s %q: %w", alias.key, u.name, whose, of.terms, err)
	}
	for _, part := range strings.Split(of.terms, ",") {
		key, value, hasValue := strings.Cut(part, "=")
		if value == "?" {
			if !slices.ContainsFunc(own, func(a param) bool { return a.key == key }) {
				return p.fail(alias.pos+len(alias.key), "%s needs a value for %s: %s/%s,%s=…/", alias.key, key, u.name, alias.key, key)
			}
			continue
		}
		n, ok := uint64(1), true
		if hasValue {
			n, ok = parseNumber(value)
		}
		if !ok {
			return broken(fmt.Errorf("%q is not a number", value))
		}
		if i := slices.Index(configNames, key); i >= 0 {
			*configField(&e.Attr, i) = n
			continue
		}
		f, ok, err := u.format(key)
		switch {
		case err != nil:
			return broken(err)
		case !ok:
			return broken(fmt.Errorf("there is no term %q", key))
		case n > f.max():
			return broken(fmt.Errorf("%s is too great for %s", value, key))
		}
		f.set(&e.Attr, n)
	}
	if v := of.vendor; v != nil {
		e.Scale, e.Unit, e.PerPkg = v.Scale, v.Unit, v.PerPkg
		if e.Attr.SamplePeriod == 0 {
			e.Attr.SamplePeriod = v.Period
		}
	}
	if !of.file {
		return nil
	}
	return p.wrap(alias.pos, u.describe(e, alias.key))
}

// withAlias returns the PMUs that have an event of this name, in sysfs or from the vendor: the core PMUs if any of them has it, else all
// others.
func (m *Machine) withAlias(name string) []*pmu {
	var core, others []*pmu
	for _, u := range m.corePMUs() {
		if !m.excludes(u) && u.hasEvent(name) {
			core = append(core, u)
		}
	}
	if len(core) > 0 {
		return core
	}
	for _, each := range m.pmuNames() {
		if u, err := m.pmu(each); err == nil && !u.core && u.hasEvent(name) {
			others = append(others, u)
		}
	}
	return others
}

// hasEvent reports whether the PMU has an event of this name. An event file counts even if it cannot be read: to use it is the error.
func (p *pmu) hasEvent(name string) bool {
	if isAliasName(name) && exists(p.fsys, p.name, "events", name) {
		return true
	}
	_, ok := p.vendorEvent(name)
	return ok
}

// bareAlias finds the events of a PMU event's name without a PMU.
func (p *parser) bareAlias(t *term) ([]Event, error) {
	pmus := p.m.withAlias(t.head)
	if len(pmus) == 0 {
		return nil, p.unknownEvent(t)
	}
	on := *t
	on.params = []param{{key: t.head, pos: t.pos}}
	var events []Event
	for _, u := range pmus {
		e, err := p.onPMU(&on, u)
		if err != nil {
			return nil, err
		}
		if u.core && len(pmus) > 1 {
			e.Name = t.onPMU(u)
		}
		events = append(events, e)
	}
	return events, nil
}
