package metric

import (
	"slices"
	"strings"
)

// Simplify returns the expression without the parts that the facts make constant or useless. "a if #smt_on else b" becomes a or b, so that
// only the events of one of them need to be counted. The expression itself stays as it is.
func (e *Expr) Simplify(f *Facts) *Expr { return &Expr{f.simplify(e.root)} }

func (f *Facts) simplify(n *node) *node {
	switch n.op {
	case number, name, metric, sources:
		return n
	case literal, available, compareID:
		if v := f.value(n); finite(v) {
			return constant(v)
		}
		return n
	}
	s := *n
	s.args = make([]*node, len(n.args))
	for i, a := range n.args {
		s.args[i] = f.simplify(a)
	}
	return s.reduce()
}

// reduce replaces a node whose arguments are simplified by a simpler one.
func (n *node) reduce() *node {
	args := make([]float64, len(n.args))
	constants := 0
	for i, a := range n.args {
		args[i] = nan
		if a.isConstant() {
			constants++
			args[i] = a.number
		}
	}
	switch {
	case n.op == choose:
		return n.choice()
	case constants == len(args):
		return constant(compute(n.op, args))
	case n.op == divide && args[1] == 0:
		return constant(nan)
	case n.op == and || n.op == or:
		if v, is := decided(n.op, args[0], args[1]); is {
			return constant(v)
		}
	}
	return n
}

// choice replaces a choice whose condition is constant, or whose branches are the same constant.
func (n *node) choice() *node {
	value, condition, otherwise := n.args[0], n.args[1], n.args[2]
	switch {
	case condition.isConstant() && condition.number == 0:
		return otherwise
	case condition.isConstant():
		return value
	case value.isConstant() && otherwise.isConstant() && value.number == otherwise.number:
		return value
	}
	return n
}

// isConstant reports whether the node is a number with a value.
func (n *node) isConstant() bool { return n.op == number && finite(n.number) }

// Events returns the events that the expression and the metrics that it refers to need, each once, in the order of the expression.
func (e *Expr) Events() []string {
	var c collector
	c.collect(e)
	return c.events
}

// collector collects the events of simplified expressions, and the literals in them, whose values the machine does not report.
type collector struct {
	events  []string
	unknown []string
	known   map[string]bool
	done    map[*Expr]bool
}

func (c *collector) collect(e *Expr) {
	if c.known == nil {
		c.known, c.done = make(map[string]bool), make(map[*Expr]bool)
	}
	if c.done[e] {
		return
	}
	c.done[e] = true
	c.walk(e.root)
}

func (c *collector) walk(n *node) {
	switch n.op {
	case name, sources:
		if !c.known[n.name] {
			c.known[n.name] = true
			c.events = append(c.events, n.name)
		}
	case metric:
		c.collect(n.metric)
	case literal:
		if lower := strings.ToLower(n.name); !slices.Contains(c.unknown, lower) {
			c.unknown = append(c.unknown, lower)
		}
	}
	for _, a := range n.args {
		c.walk(a)
	}
}

// names returns the names in the expression, each once: those of events and of other metrics.
func (e *Expr) names() []string {
	var c collector
	c.collect(e)
	return c.events
}

// refer returns the tree with references to the expressions of metrics in place of their names.
func (n *node) refer(to map[string]*Expr) *node {
	if e := to[n.name]; n.op == name && e != nil {
		return &node{op: metric, metric: e}
	}
	if len(n.args) == 0 {
		return n
	}
	r := *n
	r.args = make([]*node, len(n.args))
	for i, a := range n.args {
		r.args[i] = a.refer(to)
	}
	return &r
}

// Subset reports whether all of a are in b.
func Subset(a, b []string) bool {
	return !slices.ContainsFunc(a, func(s string) bool { return !slices.Contains(b, s) })
}
