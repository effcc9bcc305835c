package report

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/bperf/bperf/internal/profile"
)

// branch is a chain of frames in a call tree. All samples that pass through its first frame pass through all of its frames.
type branch struct {
	frames []profile.FrameID
	sum        // of the samples through the branch
	ending sum // of the samples that end at its last frame
	calls  []*branch
}

// item is a stack that grow builds branches from, with its sum.
type item struct {
	id profile.StackID
	sum
	own bool // see growFromCallers
}

// addTrees builds the call trees of the rows of the current class of samples.
func (g *gatherer) addTrees() {
	stacks := g.t.p.Stacks.All()
	nodesOf := map[*row][]profile.StackID{}
	if g.t.o.Children {
		callerFirst := g.t.o.order() == CallerFirst
		for _, id := range g.used {
			r := g.rowOf[g.classes.ofFrame(stacks[id].Frame)]
			if g.wantsTree(r) && (g.nodes[id].top || !callerFirst) {
				nodesOf[r] = append(nodesOf[r], id)
			}
		}
	}
	for _, class := range g.touched {
		r := g.rowOf[class]
		if !g.wantsTree(r) {
			continue
		}
		if g.t.o.order() == CallerFirst {
			r.calls = g.growFromCallers(g.selves[class], nodesOf[r], g.smallest(r))
		} else {
			r.calls = g.growFromCallees(g.selves[class], nodesOf[r], g.smallest(r))
		}
	}
}

// wantsTree reports whether any branch of a row's call tree can be shown.
func (g *gatherer) wantsTree(r *row) bool {
	return g.t.whole(r, g.position) >= g.smallest(r) && g.t.shown(r)
}

// smallest returns the least value that a branch of a row's tree must have to be shown.
func (g *gatherer) smallest(r *row) uint64 {
	share := g.t.o.CallGraph.Limit / 100
	switch {
	case g.t.o.CallGraph.Mode == Fractal:
		return uint64(float64(g.t.whole(r, g.position)) * share)
	case g.t.o.Relative:
		return uint64(float64(g.t.totals[g.position].leftStackedValue) * share)
	}
	return uint64(float64(g.t.totals[g.position].stacked) * share)
}

// growFromCallees returns the call tree of a row from its function to the callers.
func (g *gatherer) growFromCallees(selves []int, nodes []profile.StackID, smallest uint64) []*branch {
	var items []item
	if g.t.o.Children {
		for _, id := range nodes {
			own := g.nodes[id].sum
			own.subtract(g.parts[id]) // nodes of the same function below this one are separate items
			if own.samples > 0 {
				items = append(items, item{id: id, sum: own})
			}
		}
	} else {
		for _, i := range selves {
			s := &g.t.p.Samples()[i]
			items = append(items, item{id: s.Stack, sum: sum{s.Count, s.Value}})
		}
	}
	return g.grow(items, smallest, func(items []item) []item {
		var callers []item
		for _, i := range items {
			if caller := g.t.p.Stacks.At(i.id).Caller; caller != 0 {
				callers = append(callers, item{id: caller, sum: i.sum})
			}
		}
		return unite(callers)
	})
}

// growFromCallers returns the call tree of a row, from the outermost callers on. As in perf, it has two parts: what the row's function
// called, and the whole stacks of the samples in the function itself (item.own). The second part is subtracted from the first.
func (g *gatherer) growFromCallers(selves []int, nodes []profile.StackID, smallest uint64) []*branch {
	var marked []profile.StackID
	var items []item
	for _, i := range selves {
		s := &g.t.p.Samples()[i]
		for id := s.Stack; id != 0; id = g.t.p.Stacks.At(id).Caller {
			if g.parts[id].samples == 0 {
				marked = append(marked, id)
				if g.t.p.Stacks.At(id).Caller == 0 {
					items = append(items, item{id: id, own: true})
				}
			}
			g.parts[id].add(sum{s.Count, s.Value})
		}
	}
	for i := range items {
		items[i].sum = g.parts[items[i].id]
	}
	weigh := func(id profile.StackID, own bool) item {
		if own {
			return item{id: id, sum: g.parts[id], own: true}
		}
		i := item{id: id, sum: g.nodes[id].sum}
		i.subtract(g.parts[id])
		return i
	}
	for _, id := range nodes {
		if i := weigh(id, false); i.samples > 0 {
			items = append(items, i)
		}
	}
	calls := g.grow(items, smallest, func(items []item) []item {
		var callees []item
		for _, i := range items {
			for child := g.nodes[i.id].child; child != 0; child = g.nodes[child].sibling {
				if callee := weigh(child, i.own); callee.samples > 0 {
					callees = append(callees, callee)
				}
			}
		}
		return callees
	})
	for _, id := range marked {
		g.parts[id] = sum{}
	}
	return calls
}

// unite merges items of the same stack.
func unite(items []item) []item {
	slices.SortFunc(items, func(a, b item) int { return cmp.Compare(a.id, b.id) })
	var united []item
	for _, i := range items {
		if last := len(united) - 1; last >= 0 && united[last].id == i.id {
			united[last].add(i.sum)
			continue
		}
		united = append(united, i)
	}
	return united
}

// grow builds branches from items. follow returns the items one frame further on.
func (g *gatherer) grow(items []item, smallest uint64, follow func([]item) []item) []*branch {
	if g.t.o.CallGraph.Mode == Fractal {
		var all sum
		for _, i := range items {
			all.add(i.sum)
		}
		smallest = uint64(math.Ceil(float64(all.value) * (g.t.o.CallGraph.Limit / 100)))
	}
	var branches []*branch
	for _, group := range g.groups(items) {
		if group.value < smallest {
			continue
		}
		b := &branch{frames: []profile.FrameID{group.frame}, sum: group.sum}
		for {
			next := follow(group.items)
			b.ending = b.sum
			for _, i := range next {
				b.ending.subtract(i.sum)
			}
			groups := g.groups(next)
			if b.ending.samples > 0 || len(groups) != 1 {
				b.calls = g.grow(next, smallest, follow)
				break
			}
			group = groups[0]
			b.frames = append(b.frames, group.frame)
		}
		branches = append(branches, b)
	}
	slices.SortFunc(branches, func(a, b *branch) int {
		return cmp.Or(cmp.Compare(b.value, a.value), g.compareLinks(a.frames[0], b.frames[0]))
	})
	return branches
}

// group is the items whose first frames are in the same class.
type group struct {
	frame profile.FrameID // of the first item
	items []item
	sum
}

func (g *gatherer) groups(items []item) []*group {
	var groups []*group
	byClass := map[uint32]*group{}
	for _, i := range items {
		frame := g.t.p.Stacks.At(i.id).Frame
		class := g.classes.ofLink(frame)
		same := byClass[class]
		if same == nil {
			same = &group{frame: frame}
			byClass[class], groups = same, append(groups, same)
		}
		same.items = append(same.items, i)
		same.add(i.sum)
	}
	return groups
}

// compareLinks orders branches of equal value as perf does: later modules and higher addresses come first. perf compares modules by their
// addresses in its own memory, where a module that is mapped later usually has the higher address and the kernel has the lowest.
func (g *gatherer) compareLinks(a, b profile.FrameID) int {
	f, h := g.t.p.Frames()[a], g.t.p.Frames()[b]
	if f.Inlined && h.Inlined {
		return strings.Compare(frameName(g.t.p, &h), frameName(g.t.p, &f))
	}
	address := func(f *profile.Frame) uint64 {
		if f.Function == 0 {
			return f.IP
		}
		return g.t.p.Functions.At(f.Function).Start
	}
	order := func(f *profile.Frame) uint32 { return g.t.p.Modules.At(f.Module).Order }
	return cmp.Or(cmp.Compare(order(&h), order(&f)), cmp.Compare(h.Module, f.Module), cmp.Compare(address(&h), address(&f)), cmp.Compare(a, b))
}
