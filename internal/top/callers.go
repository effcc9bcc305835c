package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/profile"
)

// mostCallers is the number of different callers with all their own callers from which on callers begins anew.
const mostCallers = 1 << 17

// callers are the callers of sampled functions.
type callers struct {
	since  time.Time // start of the first interval
	names  profile.Table[profile.FrameID, callerName]
	stacks profile.Stacks // of names: the function's caller is the innermost one
	sums   map[callerKey]sampleSum
	known  []profile.FrameID // names by frame of the profile that is being added; 0 if not looked up yet
	buffer []profile.FrameID
}

type callerName struct{ object, name string }

// callerKey is a function and its callers.
type callerKey struct {
	function uint64 // its ID
	stack    profile.StackID
}

func newCallers() *callers { return &callers{sums: make(map[callerKey]sampleSum)} }

// begin prepares for the samples of a profile.
func (c *callers) begin(p *profile.Profile) {
	if c.since.IsZero() {
		c.since = p.Info.Start
	}
	c.known = make([]profile.FrameID, len(p.Frames()))
}

// add adds a sample in the function with this ID.
func (c *callers) add(p *profile.Profile, one *profile.Sample, id uint64) {
	c.buffer = c.buffer[:0]
	first := true
	for frame := range p.Stacks.Frames(one.Stack) {
		itself := first && frame == one.Leaf
		first = false
		if itself {
			continue
		}
		if c.known[frame] == 0 {
			key, object := identify(p, frame)
			c.known[frame] = c.names.ID(callerName{object, key.name})
		}
		c.buffer = append(c.buffer, c.known[frame])
	}
	key := callerKey{id, c.stacks.ID(c.buffer)}
	sum := c.sums[key]
	sum.add(sampleSum{one.Count, one.Value})
	c.sums[key] = sum
}

// forget begins anew if there are too many callers. The next interval is the first one then.
func (c *callers) forget() {
	if len(c.stacks.All())+len(c.sums) > mostCallers {
		*c = *newCallers()
	}
}

// callerNode is a caller, or the function itself, with the sums of the samples that went through it.
type callerNode struct {
	sampleSum
	name    profile.FrameID
	callers []*callerNode
}

func (n *callerNode) caller(name profile.FrameID) *callerNode {
	for _, c := range n.callers {
		if c.name == name {
			return c
		}
	}
	c := &callerNode{name: name}
	n.callers = append(n.callers, c)
	return c
}

// tree returns the callers of a function. The root is the function.
func (c *callers) tree(id uint64) *callerNode {
	root := &callerNode{}
	for key, sum := range c.sums {
		if key.function != id {
			continue
		}
		n := root
		n.add(sum)
		for name := range c.stacks.Frames(key.stack) {
			n = n.caller(name)
			n.add(sum)
		}
	}
	return root
}

// Limits of what is written of callers.
const (
	leastCaller = 0.005 // share of the function's samples
	mostIndent  = 40
)

// write writes the callers of the function with an ID as a tree: the callers of each line are below it.
func (c *callers) write(b *strings.Builder, id uint64) {
	root := c.tree(id)
	if root.samples == 0 {
		b.WriteString("\nThere is no sample with callers.\n")
		return
	}
	fmt.Fprintf(b, "\nCallers, in %% of its %d samples since %s:\n", root.samples, c.since.Format(time.TimeOnly))
	c.writeBelow(b, root, root.value, 0)
}

func (c *callers) writeBelow(b *strings.Builder, n *callerNode, whole uint64, indent int) {
	slices.SortFunc(n.callers, func(x, y *callerNode) int { return cmp.Or(cmp.Compare(y.value, x.value), cmp.Compare(x.name, y.name)) })
	var small sampleSum
	number := 0
	for _, caller := range n.callers {
		if part(caller.value, whole) < leastCaller {
			small.add(caller.sampleSum)
			number++
			continue
		}
		name := c.names.At(caller.name)
		fmt.Fprintf(b, "%6.2f  %*s%s  %s\n", 100*part(caller.value, whole), indent, "", printable.Text(name.name), printable.Text(name.object))
		deeper := indent
		if caller.value < n.value { // a single caller stays below what it calls
			deeper = min(indent+2, mostIndent)
		}
		c.writeBelow(b, caller, whole, deeper)
	}
	if number > 0 {
		fmt.Fprintf(b, "%6.2f  %*sin %d more\n", 100*part(small.value, whole), indent, "", number)
	}
}
