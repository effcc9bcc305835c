package report

import (
	"fmt"
	"iter"
	"strings"

	"github.com/bperf/bperf/internal/profile"
)

// chosen returns the samples that pass the filters.
func chosen(p *profile.Profile, o *Options) iter.Seq[*profile.Sample] {
	wanted := o.Filter.of(p)
	return func(yield func(*profile.Sample) bool) {
		samples := p.Samples()
		for i := range samples {
			if wanted(&samples[i]) && !yield(&samples[i]) {
				return
			}
		}
	}
}

// Passes returns a function that reports whether a sample of a profile passes the filters.
func (o *Options) Passes(p *profile.Profile) func(*profile.Sample) bool { return o.Filter.of(p) }

// Counts returns a function that reports whether percentages relate to a sample of a profile.
func (o *Options) Counts(p *profile.Profile) func(*profile.Sample) bool {
	if o.Relative {
		return o.Passes(p)
	}
	return func(s *profile.Sample) bool { return !o.hidden(p, s) }
}

// offCPU is the value of the tag "wall" for blocked threads, in profiles that separate their time from that on CPUs.
const offCPU = "off-CPU"

// theEvent returns the index of the event that a format with room for one event shows: the named one, or the only one with samples.
// Anything else is an error.
func theEvent(p *profile.Profile, o *Options) (int, error) {
	var names []string
	found := -1
	for i, e := range p.Events {
		if o.Event != "" && e.Name == o.Event {
			return i, nil
		}
		if e.Samples > 0 {
			names = append(names, e.Name)
			found = i
		}
	}
	switch {
	case o.Event != "":
		return 0, fmt.Errorf("event %q: there are no samples of it; there are %s", o.Event, strings.Join(names, ", "))
	case len(names) > 1:
		return 0, fmt.Errorf("there are samples of %d events, and this format has room for one: choose one of %s", len(names), strings.Join(names, ", "))
	case found < 0:
		return 0, fmt.Errorf("there are no samples")
	}
	return found, nil
}

// frameTitle returns a frame's name for formats without addresses: its function, or else its module.
func frameTitle(p *profile.Profile, id profile.FrameID) string {
	f := p.Frames()[id]
	if f.Function == 0 {
		return "[" + strings.Trim(moduleName(p, &f), "[]") + "]"
	}
	return p.Strings.At(p.Functions.At(f.Function).Name)
}
