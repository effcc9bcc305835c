package report

import (
	"math"
	"slices"

	"github.com/bperf/bperf/internal/profile"
)

// gatherer builds rows.
//
// It works on the trie of stacks, one class of samples of one event at a time. It visits each node that samples' stacks pass through once,
// regardless of the number of samples. A row's total is the sum of the nodes of its class that have no other node of this class above them.
type gatherer struct {
	t        *table
	rows     rowMap
	classes  *classes
	position int  // index of the present event in table.events
	trees    bool // its rows get call trees

	nodes []node            // by profile.StackID; nil if rows need only their own values
	parts []sum             // by profile.StackID: see growFromCallees and growFromCallers
	used  []profile.StackID // the nodes in use in ascending order: callers come before their callees

	// By classes of frames.
	rowOf   []*row
	selves  [][]int           // the samples in the row's own code, for its call tree
	touched []uint32          // classes with a row in rowOf
	open    []profile.StackID // innermost node of the class on the path to the visited node; see walk
}

// sum is a number of samples and the sum of their values.
type sum struct{ samples, value uint64 }

func (s *sum) add(o sum) {
	s.samples += o.samples
	s.value += o.value
}

func (s *sum) subtract(o sum) {
	s.samples -= o.samples
	s.value -= o.value
}

// node sums up the samples of the current class with this stack or with a stack that it is a caller of.
type node struct {
	sum
	first          int32 // 1 + the index of the earliest sample
	height         int32 // nodes on the longest path down, this one included
	depth          int32 // nodes on the path up, this one included
	child, sibling profile.StackID
	used           bool
	top            bool // no node above has the same class
}

func newGatherer(t *table) *gatherer {
	g := &gatherer{t: t, rows: rowMap{}, classes: newClasses(t)}
	if t.needsNodes() {
		g.nodes = make([]node, len(t.p.Stacks.All()))
		if t.o.CallGraph.Mode != NoGraph {
			g.parts = make([]sum, len(g.nodes))
		}
	}
	return g
}

// needsNodes reports whether rows need the sums of stacks, not only those of samples.
func (t *table) needsNodes() bool {
	return t.o.Children || t.o.CallGraph.Mode != NoGraph && t.o.order() == CallerFirst
}

// gather adds samples of one class and one event, by their indexes in Profile.Samples. position is the event's index in table.events.
func (g *gatherer) gather(class uint32, position int, chosen []int) {
	g.position, g.trees = position, position == 0 && g.t.o.CallGraph.Mode != NoGraph
	samples := g.t.p.Samples()
	for _, i := range chosen {
		s := &samples[i]
		r := g.row(class, s.Leaf, i)
		v := &r.values[g.position]
		v.samples += s.Count
		if g.position == 0 {
			r.samples += s.Count
		}
		v.self += s.Value
		v.addWeights(g.t.p, s)
		v.addKind(g.t.p.Frames()[s.Leaf].Kind, s.Value)
		if g.trees && s.Stack != 0 {
			of := g.classes.ofFrame(s.Leaf)
			g.selves[of] = append(g.selves[of], i)
		}
		g.use(s, i)
		if !g.t.o.Children || s.Stack == 0 || !g.onStack(s) {
			v.total += s.Value
		}
	}
	if g.nodes != nil {
		slices.Sort(g.used)
		g.sumUp()
	}
	if g.t.o.Children {
		g.addCallers(class)
		for _, i := range chosen {
			r := g.row(class, samples[i].Leaf, i)
			r.depth = max(r.depth, int(g.nodes[samples[i].Stack].depth))
		}
	}
	if g.trees {
		g.addTrees()
	}
	g.reset()
}

func (v *value) addKind(k profile.Kind, amount uint64) {
	switch k {
	case profile.Kernel, profile.BPF:
		v.kernel += amount
	case profile.User:
		v.user += amount
	case profile.GuestKernel:
		v.guestOS += amount
	case profile.GuestUser:
		v.guest += amount
	}
}

// addWeights adds what Details has of a sample.
func (v *value) addWeights(p *profile.Profile, s *profile.Sample) {
	if s.Details == 0 {
		return
	}
	d := p.Details(s.Details)
	for i, weight := range []uint64{d.Weight, uint64(d.InstructionLatency), uint64(d.RetireLatency)} {
		v.weights[i] += s.Count * weight
	}
}

// row returns the row of a frame in samples of a class. A new row gets the properties of the sample.
func (g *gatherer) row(class uint32, frame profile.FrameID, sample int) *row {
	of := g.classes.ofFrame(frame)
	g.ensure(of)
	r := g.rowOf[of]
	if r == nil {
		r = g.rows[rowKey{class, of}]
		if r == nil {
			r = &row{properties: g.classes.propertiesOf(sample), values: make([]value, len(g.t.events)), first: math.MaxInt64}
			r.frame = &g.t.p.Frames()[frame]
			g.rows[rowKey{class, of}] = r
		}
		g.rowOf[of] = r
		g.touched = append(g.touched, of)
	}
	s := &g.t.p.Samples()[sample]
	if s.First < r.first && g.position == 0 {
		r.first, r.thread = s.First, s.Thread
	}
	if s.First > r.last { // as in perf, a thread that was renamed has its last name
		r.last, r.labels = s.First, &g.t.p.Labels()[s.Labels]
	}
	return r
}

// onStack reports whether the function of a sample's leaf is on its stack.
func (g *gatherer) onStack(s *profile.Sample) bool {
	class := g.classes.ofFrame(s.Leaf)
	for f := range g.t.p.Stacks.Frames(s.Stack) {
		if g.classes.ofFrame(f) == class {
			return true
		}
	}
	return false
}

// use adds a sample to the node of its stack and marks the node and its callers as used.
func (g *gatherer) use(s *profile.Sample, index int) {
	if s.Stack == 0 || g.nodes == nil {
		return
	}
	n := &g.nodes[s.Stack]
	n.add(sum{s.Count, s.Value})
	g.earlier(n, int32(index)+1)
	for id := s.Stack; id != 0 && !g.nodes[id].used; id = g.t.p.Stacks.At(id).Caller {
		g.nodes[id].used = true
		g.used = append(g.used, id)
	}
}

// earlier makes first the first sample of a node if it is earlier than the present one.
func (g *gatherer) earlier(n *node, first int32) {
	samples := g.t.p.Samples()
	if n.first == 0 || samples[first-1].First < samples[n.first-1].First {
		n.first = first
	}
}

// sumUp adds the sum of each node to its caller and links callers to callees.
func (g *gatherer) sumUp() {
	stacks := g.t.p.Stacks.All()
	for _, id := range slices.Backward(g.used) {
		n := &g.nodes[id]
		n.height++
		if caller := stacks[id].Caller; caller != 0 {
			c := &g.nodes[caller]
			c.add(n.sum)
			c.height = max(c.height, n.height)
			g.earlier(c, n.first)
			n.sibling, c.child = c.child, id
		}
	}
	for _, id := range g.used {
		g.nodes[id].depth = g.nodes[stacks[id].Caller].depth + 1
	}
}

// addCallers adds the values of nodes to the rows of their functions. A recursive function counts once.
func (g *gatherer) addCallers(class uint32) {
	stacks := g.t.p.Stacks.All()
	callerFirst := g.t.o.order() == CallerFirst
	g.walk(func(id profile.StackID) {
		n := &g.nodes[id]
		r := g.row(class, stacks[id].Frame, int(n.first-1))
		if !callerFirst {
			r.depth = max(r.depth, int(n.depth))
		}
		if !n.top {
			return
		}
		r.values[g.position].total += n.value
		if callerFirst {
			r.depth = max(r.depth, int(n.height))
		}
	})
}

// walk visits the nodes in use, callers before callees, and sets node.top for nodes without a node of the same class above.
func (g *gatherer) walk(visit func(profile.StackID)) {
	stacks := g.t.p.Stacks.All()
	callees := g.t.o.order() == CalleeFirst
	type step struct{ id, outer profile.StackID }
	var path []step
	for _, root := range g.used {
		if stacks[root].Caller != 0 {
			continue
		}
		for next := root; next != 0; {
			class := g.classes.ofFrame(stacks[next].Frame)
			g.ensure(class)
			n, outer := &g.nodes[next], g.open[class]
			n.top = outer == 0
			if outer != 0 && g.trees && callees {
				g.parts[outer].add(n.sum)
			}
			g.open[class] = next
			path = append(path, step{next, outer})
			visit(next)
			next = n.child
			for next == 0 && len(path) > 0 {
				done := path[len(path)-1]
				path = path[:len(path)-1]
				g.open[g.classes.ofFrame(stacks[done.id].Frame)] = done.outer
				next = g.nodes[done.id].sibling
			}
		}
	}
}

// ensure grows rowOf, selves and open to hold a class of frames.
func (g *gatherer) ensure(class uint32) {
	if missing := int(class) + 1 - len(g.rowOf); missing > 0 {
		g.rowOf = append(g.rowOf, make([]*row, missing)...)
		g.selves = append(g.selves, make([][]int, missing)...)
		g.open = append(g.open, make([]profile.StackID, missing)...)
	}
}

func (g *gatherer) reset() {
	for _, id := range g.used {
		g.nodes[id] = node{}
		if g.parts != nil {
			g.parts[id] = sum{}
		}
	}
	for _, class := range g.touched {
		g.rowOf[class], g.selves[class] = nil, nil
	}
	g.used, g.touched = g.used[:0], g.touched[:0]
}
