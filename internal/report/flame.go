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

	byName map[flameName]*flame // calls, once they are many
}

// manyCalls is the number of calls from which on a map finds one sooner than comparing names.
const manyCalls = 12

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

// threadClasses are the classes of frames that are no functions.
var threadClasses = []string{"thread", "oncpu", "offcpu"}

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
	g := newGrower(root, p, o)
	for s := range chosen(p, o) {
		if int(s.Event) == event {
			g.leaf(s).value += s.Value
		}
	}
	root.sumUp()
	return root
}

// sumUp adds the values of the frames above to those of each frame.
func (f *flame) sumUp() {
	for _, c := range f.calls {
		c.sumUp()
		f.value += c.value
	}
}

// addBase adds the samples of a profile to compare with. It scales them so that both profiles have the same sum.
func (root *flame) addBase(p *profile.Profile, o *Options, event int) {
	var all uint64
	of := map[*flame]uint64{} // the samples that end in each frame
	g := newGrower(root, p, o)
	for s := range chosen(p, o) {
		if int(s.Event) == event {
			all += s.Value
			of[g.leaf(s)] += s.Value
		}
	}
	if all > 0 {
		root.scaleBase(of, float64(root.value)/float64(all))
	}
}

// scaleBase sets base of the frame and those above it from the values of the samples that end in each, and returns the unscaled sum.
func (f *flame) scaleBase(of map[*flame]uint64, scale float64) uint64 {
	sum := of[f]
	for _, c := range f.calls {
		sum += c.scaleBase(of, scale)
	}
	f.base = uint64(float64(sum)*scale + 0.5)
	return sum
}

// grower adds frames to a tree. It follows each stack of the profile only once for each set of labels: most samples share theirs.
type grower struct {
	root     *flame
	p        *profile.Profile
	labels   labelFrames
	labelled []*labelled // by LabelsID; nil for those not seen yet
	byFrame  map[*flame]*labelled
	titles   []string // of frames, by FrameID; "" for those not seen yet
}

// labelled is the frame of labels, and those of the stacks on it.
type labelled struct {
	on     *flame
	stacks []*[stacksPage]*flame // by StackID, in pages; nil for those not seen yet
}

// stacksPage is the number of stacks of a page.
const stacksPage = 256

func newGrower(root *flame, p *profile.Profile, o *Options) *grower {
	return &grower{root: root, p: p, labels: newLabelFrames(o), labelled: make([]*labelled, len(p.Labels())), byFrame: map[*flame]*labelled{},
		titles: make([]string, len(p.Frames()))}
}

// leaf returns the frame in which a sample ends. It adds missing frames on the way there.
func (g *grower) leaf(s *profile.Sample) *flame {
	l := g.labelled[s.Labels]
	if l == nil {
		on := g.root
		for _, f := range g.labels.of(g.p, s) {
			on = on.call(f.name, f.class)
		}
		if l = g.byFrame[on]; l == nil {
			l = &labelled{on, make([]*[stacksPage]*flame, len(g.p.Stacks.All())/stacksPage+1)}
			g.byFrame[on] = l
		}
		g.labelled[s.Labels] = l
	}
	if s.Stack == 0 && s.Leaf != 0 {
		return g.called(l.on, s.Leaf)
	}
	return g.stack(l, s.Stack)
}

func (g *grower) stack(l *labelled, id profile.StackID) *flame {
	if id == 0 {
		return l.on
	}
	page := &l.stacks[id/stacksPage]
	if *page == nil {
		*page = new([stacksPage]*flame)
	}
	known := &(*page)[id%stacksPage]
	if *known == nil {
		stack := g.p.Stacks.At(id)
		*known = g.called(g.stack(l, stack.Caller), stack.Frame)
	}
	return *known
}

// called returns the frame of a function that caller called.
func (g *grower) called(caller *flame, id profile.FrameID) *flame {
	f := &g.p.Frames()[id]
	title := &g.titles[id]
	if *title == "" {
		*title = frameTitle(g.p, id)
		if program := g.p.Programs.At(g.p.Functions.At(f.Function).Program); program.ID != 0 {
			*title = fmt.Sprintf("%s (program %d)", *title, program.ID)
		}
	}
	return caller.call(*title, flameClass(f))
}

func (f *flame) call(name, class string) *flame {
	if f.byName == nil {
		for _, c := range f.calls {
			if c.name == name && c.class == class {
				return c
			}
		}
	} else if called := f.byName[flameName{name, class}]; called != nil {
		return called
	}
	called := &flame{name: name, class: class}
	f.calls = append(f.calls, called)
	if f.byName != nil {
		f.byName[flameName{name, class}] = called
	} else if len(f.calls) > manyCalls {
		f.byName = map[flameName]*flame{}
		for _, c := range f.calls {
			f.byName[flameName{c.name, c.class}] = c
		}
	}
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
