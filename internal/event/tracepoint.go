package event

import (
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/bperf/bperf/perfdata"
)

// tracefsError is an error from tracefs; its message says how to fix it.
type tracefsError struct{ Err error }

func (e *tracefsError) Error() string {
	if errors.Is(e.Err, fs.ErrNotExist) {
		return "tracefs is not mounted; mount it: mount -t tracefs nodev /sys/kernel/tracing (with lockdown=confidentiality it is empty)"
	}
	if errors.Is(e.Err, fs.ErrPermission) {
		return "tracefs may not be read: permission denied; run as root, or let others read it: " +
			"mount -o remount,mode=755 /sys/kernel/tracing"
	}
	return "tracefs cannot be read: " + e.Err.Error() + "; mount it anew: mount -t tracefs nodev /sys/kernel/tracing"
}

func (e *tracefsError) Unwrap() error { return e.Err }

// systems returns the names of the directories of tracefs/events
// (https://docs.kernel.org/trace/events.html). The error is a *tracefsError.
func (m *Machine) systems() ([]string, error) {
	names, err := readNames(m.tracing(), "events")
	if err != nil {
		return nil, &tracefsError{err}
	}
	return names, nil
}

// Tracepoints returns all tracepoints as SYSTEM:NAME, in alphabetical order. The error is a
// *tracefsError.
func (m *Machine) Tracepoints() ([]string, error) {
	systems, err := m.systems()
	if err != nil {
		return nil, err
	}
	var all []string
	for _, system := range systems {
		all = append(all, m.tracepointsOf(system)...)
	}
	return all, nil
}

// tracepointsOf returns the tracepoints of one system. It skips files that are not directories. It also skips the
// tracers' own records in the system "ftrace" that have no id, because they are no perf events.
func (m *Machine) tracepointsOf(system string) []string {
	fsys := m.tracing()
	entries, _ := fs.ReadDir(fsys, "events/"+system)
	var names []string
	for _, e := range entries {
		if !e.IsDir() || system == "ftrace" && !exists(fsys, "events", system, e.Name(), "id") {
			continue
		}
		names = append(names, system+":"+e.Name())
	}
	return names
}

// tracepoints finds SYSTEM:NAME, each of which can be a pattern.
func (p *parser) tracepoints(t *term, name string, namePos int) ([]Event, error) {
	if name == "" {
		return nil, p.fail(namePos, "the name of a tracepoint of %s is missing here", t.head)
	}
	if !isGlob(t.head) && !isGlob(name) {
		e, err := p.tracepoint(t, t.head+":"+name)
		if err != nil {
			if err := p.misspelled(t, name, namePos); err != nil {
				return nil, err
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil, p.noTracepoint(t, name, namePos)
		}
		if err != nil {
			return nil, p.tracefsError(t, err)
		}
		return []Event{e}, nil
	}
	matches, err := p.m.matchTracepoints(t.head, name)
	if err != nil {
		return nil, p.fail(t.pos, "%w", err)
	}
	var events []Event
	for _, full := range matches {
		e, err := p.tracepoint(t, full)
		if errors.Is(err, fs.ErrNotExist) {
			continue // ftrace can trace it, but it is no perf event
		}
		if err != nil {
			return nil, p.tracefsError(t, err)
		}
		events = append(events, e)
	}
	if len(events) == 0 {
		return nil, p.noTracepoint(t, name, namePos)
	}
	return events, nil
}

func (m *Machine) matchTracepoints(system, name string) ([]string, error) {
	systems := []string{system}
	if isGlob(system) || !exists(m.tracing(), "events") {
		all, err := m.systems()
		if err != nil {
			return nil, err
		}
		match := globber(system)
		systems = slices.DeleteFunc(all, func(s string) bool { return !match(s) })
	}
	match := globber(name)
	var found []string
	for _, system := range systems {
		for _, full := range m.tracepointsOf(system) {
			if match(full[len(system)+1:]) {
				found = append(found, full)
			}
		}
	}
	return found, nil
}

// tracefsError returns err with the term's position, or err itself if it already has a position.
func (p *parser) tracefsError(t *term, err error) error {
	if syntax := (*syntaxError)(nil); errors.As(err, &syntax) {
		return err
	}
	return p.fail(t.pos, "%w", &tracefsError{err})
}

// tracepoint returns the event of one tracepoint. The error is from the file system, or has a position.
func (p *parser) tracepoint(t *term, full string) (Event, error) {
	system, name, _ := strings.Cut(full, ":")
	text, err := readFile(p.m.tracing(), "events/"+system+"/"+name+"/id")
	if err != nil {
		return Event{}, err
	}
	id, err := strconv.ParseUint(strings.TrimSpace(text), 10, 32)
	if err != nil {
		return Event{}, p.fail(t.pos, "the id of tracepoint %s is %q, not a number", full, strings.TrimSpace(text))
	}
	e := Event{Name: full, Tracepoint: full, PMU: "tracepoint", Scale: 1, Attr: perfdata.Attr{Type: perfdata.TypeTracepoint, Config: id}}
	if t.mods != "" {
		e.Name += ":" + string(t.mods)
	}
	for _, a := range t.params {
		ok, err := p.commonParam(&e, a)
		if err != nil {
			return Event{}, err
		}
		if !ok {
			return Event{}, p.failNearest(a.pos, a.key, func() []candidate { return candidates(commonParams) },
				"a tracepoint has no term %s; its terms are %s", a.key, strings.Join(commonParams, ", "))
		}
	}
	return e, nil
}

// misspelled returns an error if the term looks like EVENT:MODIFIERS with one of the two wrong. It returns nil if the term
// can be a tracepoint.
func (p *parser) misspelled(t *term, name string, namePos int) error {
	if exists(p.m.tracing(), "events", t.head) {
		return nil
	}
	if len(p.m.withAlias(t.head)) > 0 {
		_, err := p.modifiers(name, namePos)
		return err
	}
	if isModifiers(name) {
		return p.unknownEvent(t)
	}
	return nil
}

// noTracepoint returns an error that names the cause: tracefs, the system or the name.
func (p *parser) noTracepoint(t *term, name string, namePos int) error {
	systems, err := p.m.systems()
	if err != nil {
		return p.fail(t.pos, "%w", err)
	}
	names, _ := p.m.Tracepoints()
	if isGlob(t.head) || isGlob(name) {
		return p.failNearest(t.pos, t.head+":"+name, func() []candidate { return candidates(names) }, "no tracepoint matches %s:%s", t.head, name)
	}
	if exists(p.m.tracing(), "events", t.head, name) {
		return p.fail(namePos, "%s:%s can be traced, but perf events cannot count it", t.head, name)
	}
	if slices.Contains(systems, t.head) {
		return p.failNearest(namePos, name, func() (all []candidate) {
			for _, full := range p.m.tracepointsOf(t.head) {
				all = append(all, candidate{full[len(t.head)+1:], full})
			}
			return all
		}, "%s has no tracepoint %s", t.head, name)
	}
	return p.failNearest(t.pos, t.head+":"+name, func() (all []candidate) {
		for _, full := range names {
			all = append(all, candidate{full, full})
			if _, short, _ := strings.Cut(full, ":"); short == name {
				all = append(all, candidate{t.head + ":" + name, full}) // only the system is wrong
			}
		}
		return all
	}, "there are no tracepoints of %s", t.head)
}
