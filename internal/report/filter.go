package report

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/bperf/bperf/internal/profile"
)

// Filter selects samples. Empty lists do not restrict anything.
type Filter struct {
	Comms    []string       // only samples of threads with these names
	DSOs     []string       // only samples in these modules, by short or full name
	Symbols  []string       // only samples in these functions
	Part     string         // only samples in functions with this text in their names
	Programs []string       // only samples with one of these BPF programs, by name or ID, on their stack
	Caller   *regexp.Regexp // only samples with a function on their stack that matches
	Resolved bool           // only samples in known functions; no percentage relates to the others

	zooms []Zoom // of a Walk
}

// of returns a function that reports whether a sample of a profile passes the filter.
func (f *Filter) of(p *profile.Profile) func(*profile.Sample) bool {
	if f.isEmpty() {
		return func(*profile.Sample) bool { return true }
	}
	isProgram := func(id profile.FrameID) bool {
		program := p.Programs.At(p.Functions.At(p.Frames()[id].Function).Program)
		return program.ID != 0 && (slices.Contains(f.Programs, p.Strings.At(program.Name)) || slices.Contains(f.Programs, fmt.Sprint(program.ID)))
	}
	called := func(profile.StackID) bool { return true }
	if f.Caller != nil {
		find := parents(p, f.Caller, CalleeFirst)
		called = func(stack profile.StackID) bool { return find(stack) != 0 }
	}
	selects := func(names []string, name string) bool { return len(names) == 0 || slices.Contains(names, name) }
	return func(s *profile.Sample) bool {
		leaf := p.Frames()[s.Leaf]
		if f.hidden(p, s) || !selects(f.Comms, p.Strings.At(p.Labels()[s.Labels].Comm)) {
			return false
		}
		if !selects(f.DSOs, moduleName(p, &leaf)) && !selects(f.DSOs, p.Strings.At(p.Modules.At(leaf.Module).Path)) {
			return false
		}
		function := p.Strings.At(p.Functions.At(leaf.Function).Name)
		if len(f.Symbols) > 0 && leaf.Function == 0 || !selects(f.Symbols, function) || !strings.Contains(function, f.Part) {
			return false
		}
		if !called(s.Stack) || slices.ContainsFunc(f.zooms, func(z Zoom) bool { return !z.passes(p, s) }) {
			return false
		}
		if len(f.Programs) == 0 || isProgram(s.Leaf) || isProgram(s.Source) {
			return true
		}
		for id := range p.Stacks.Frames(s.Stack) {
			if isProgram(id) {
				return true
			}
		}
		return false
	}
}

func (f *Filter) isEmpty() bool {
	return len(f.Comms)+len(f.DSOs)+len(f.Symbols)+len(f.Programs)+len(f.zooms) == 0 && f.Part == "" && f.Caller == nil && !f.Resolved
}

// CutCallees removes what the functions of IgnoreCallees called from a profile.
func (o *Options) CutCallees(p *profile.Profile) {
	if o.IgnoreCallees != nil {
		p.CutCallees(matcher(p, o.IgnoreCallees))
	}
}

// hidden reports whether a sample does not exist for a report.
func (f *Filter) hidden(p *profile.Profile, s *profile.Sample) bool {
	return f.Resolved && (p.Frames()[s.Leaf].Function == 0 || s.Source != 0 && p.Frames()[s.Source].Function == 0)
}

// elided returns the keys that are equal in all rows because a filter selects one value, with that value.
func (f *Filter) elided() map[string]string {
	names := map[string]string{}
	for name, list := range map[string][]string{"comm": f.Comms, "dso": f.DSOs, "symbol": f.Symbols} {
		if len(list) == 1 {
			names[name] = list[0]
		}
	}
	return names
}
