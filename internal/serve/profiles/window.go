package profiles

import (
	"strings"
	"time"

	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/internal/serve/container"
)

// Window is the profile of an interval. Nobody may change it; several goroutines may read it.
type Window struct {
	Start    time.Time
	Duration time.Duration
	Profile  *profile.Profile // of the whole machine, with the losses
	Parts    []Part           // by container, in the order of the paths of their cgroups; together they have all samples
}

// End returns when the window ended.
func (w *Window) End() time.Time { return w.Start.Add(w.Duration) }

// Part is the profile of a container, or of all cgroups that Config.Container does not know: their Name is zero. The parts of a window
// share the tables of its profile.
type Part struct {
	container.Name
	Profile *profile.Profile
}

// Filter selects containers. Fields that are not empty must all match.
type Filter struct {
	Container string // the beginning of the container's ID, or its name in the pod
	Pod       string // name or UID
	Namespace string
}

// all reports whether the filter selects everything.
func (f Filter) all() bool { return f == Filter{} }

// Matches reports whether the filter selects a container.
func (f Filter) Matches(n *container.Name) bool {
	return (f.Container == "" || n.Container == f.Container || n.ID != "" && strings.HasPrefix(n.ID, f.Container)) &&
		(f.Pod == "" || n.Pod == f.Pod || n.PodUID == f.Pod) && (f.Namespace == "" || n.Namespace == f.Namespace)
}

// Of returns the samples of the containers that a filter selects, as one profile.
func (w *Window) Of(f Filter) *profile.Profile {
	if f.all() {
		return w.Profile
	}
	selected := map[string]bool{}
	for i := range w.Parts {
		if n := &w.Parts[i].Name; f.Matches(n) {
			selected[n.Path] = n.Path != ""
		}
	}
	return ofPaths(w.Profile, func(path string) bool { return selected[path] })
}

// ofPaths returns the samples of a profile whose cgroups have one of these paths.
func ofPaths(p *profile.Profile, has func(path string) bool) *profile.Profile {
	labels := make([]bool, len(p.Labels()))
	for id, l := range p.Labels() {
		labels[id] = has(p.Strings.At(l.Cgroup))
	}
	if part := profile.Split(p, func(s *profile.Sample) bool { return labels[s.Labels] })[true]; part != nil {
		return part
	}
	none := profile.New(p.Keys())
	none.Info, none.Events = p.Info, append([]profile.Event(nil), p.Events...)
	for i := range none.Events {
		none.Events[i].Samples, none.Events[i].Value, none.Events[i].Stacks = 0, 0, 0
	}
	return none
}
