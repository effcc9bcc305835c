package report

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/bperf/bperf/internal/profile"
)

// flame is a frame of a flame graph with the frames above it: a function as called through one chain of callers.
type flame struct {
	name  string
	class string // see flameClasses
	value uint64 // in the profile that is shown
	base  uint64 // in the profile to compare with
	calls []*flame

	byName map[flameName]*flame
}

type flameName struct{ name, class string }

// flameClasses are the kinds of frames in the legend of a flame graph. BPF programs have a dashed outline, so that they differ even without
// colours.
var flameClasses = []flameLegend{
	{"user", "user code"},
	{"inlined", "inlined"},
	{"kernel", "kernel"},
	{"bpf", "BPF program"},
	{"guest", "guest or hypervisor"},
	{"thread", "thread"},
}

// wallClasses are the additional classes in graphs of the time on and off CPUs.
var wallClasses = []flameLegend{{"oncpu", "on a CPU"}, {"offcpu", "blocked"}}

type flameLegend struct{ class, title string }

func flameClass(f *profile.Frame) string {
	if f.Inlined {
		return "inlined"
	}
	switch f.Kind {
	case profile.Kernel:
		return "kernel"
	case profile.BPF:
		return "bpf"
	case profile.Hypervisor, profile.GuestUser, profile.GuestKernel:
		return "guest"
	}
	return "user"
}

// newFlames builds the tree of an event. Its root contains the samples of all threads.
func newFlames(p *profile.Profile, o *Options, event int) *flame {
	root := &flame{name: "all", class: "thread"}
	labels := newLabelFrames(o)
	for s := range chosen(p, o) {
		if int(s.Event) == event {
			root.add(p, s, labels, func(f *flame) { f.value += s.Value })
		}
	}
	return root
}

// addBase adds the samples of a profile to compare with. It scales them so that both profiles have the same sum.
func (root *flame) addBase(p *profile.Profile, o *Options, event int) {
	var all uint64
	for s := range chosen(p, o) {
		if int(s.Event) == event {
			all += s.Value
		}
	}
	if all == 0 {
		return
	}
	scale := float64(root.value) / float64(all)
	exact := map[*flame]float64{}
	labels := newLabelFrames(o)
	for s := range chosen(p, o) {
		if int(s.Event) == event {
			root.add(p, s, labels, func(f *flame) { exact[f] += float64(s.Value) * scale })
		}
	}
	for f, value := range exact {
		f.base = uint64(value + 0.5)
	}
}

// add walks from the root to the leaf of a sample, adds missing frames, and calls count for each frame.
func (root *flame) add(p *profile.Profile, s *profile.Sample, labels labelFrames, count func(*flame)) {
	at := root
	count(at)
	for _, l := range labels.of(p, s) {
		at = at.call(l.name, l.class)
		count(at)
	}
	for _, id := range slices.Backward(p.StackOf(s)) {
		f := p.Frames()[id]
		name := frameTitle(p, id)
		if program := p.Programs.At(p.Functions.At(f.Function).Program); program.ID != 0 {
			name = fmt.Sprintf("%s (program %d)", name, program.ID)
		}
		at = at.call(name, flameClass(&f))
		count(at)
	}
}

func (f *flame) call(name, class string) *flame {
	key := flameName{name, class}
	called := f.byName[key]
	if called != nil {
		return called
	}
	if f.byName == nil {
		f.byName = map[flameName]*flame{}
	}
	called = &flame{name: name, class: class}
	f.byName[key] = called
	f.calls = append(f.calls, called)
	return called
}

// prune sorts calls by name and removes those with a value below smallest. It returns the number of removed frames.
func (f *flame) prune(smallest uint64) int {
	removed := 0
	f.byName = nil
	f.calls = slices.DeleteFunc(f.calls, func(c *flame) bool {
		if c.value >= smallest && c.value > 0 {
			return false
		}
		removed += c.size()
		return true
	})
	slices.SortFunc(f.calls, func(a, b *flame) int { return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.class, b.class)) })
	for _, c := range f.calls {
		removed += c.prune(smallest)
	}
	return removed
}

func (f *flame) size() int {
	n := 1
	for _, c := range f.calls {
		n += c.size()
	}
	return n
}

// isOf reports whether the frame, or a frame above it, is in one of the classes.
func (f *flame) isOf(classes []flameLegend) bool {
	return slices.ContainsFunc(classes, func(c flameLegend) bool { return c.class == f.class }) ||
		slices.ContainsFunc(f.calls, func(c *flame) bool { return c.isOf(classes) })
}

func (f *flame) depth() int {
	deepest := 0
	for _, c := range f.calls {
		deepest = max(deepest, c.depth())
	}
	return deepest + 1
}
