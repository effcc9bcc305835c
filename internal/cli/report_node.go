package cli

import (
	"strings"

	"github.com/bperf/bperf/internal/report"
)

// reportNode is a line of a report on a terminal: a row, or a function in a row's call tree.
type reportNode struct {
	parent *reportNode
	depth  int
	row    *report.WalkRow // nil for functions

	// Of functions. call and rest belong to the first function of a branch.
	function report.WalkFunction
	call     *report.WalkCall
	rest     []report.WalkFunction // those that all samples of the branch also pass through

	open  bool
	below []*reportNode // nil until they are needed
}

// leads reports whether there is anything below a node.
func (n *reportNode) leads() bool {
	if n.row != nil {
		return n.row.HasCalls()
	}
	return n.call != nil && (len(n.rest) > 0 || n.call.HasCalls())
}

// children returns what is directly below a node: the other functions of its branch, then the branches.
func (n *reportNode) children() []*reportNode {
	if n.below != nil || !n.leads() {
		return n.below
	}
	for _, f := range n.rest {
		n.below = append(n.below, &reportNode{parent: n, depth: n.depth + 1, function: f})
	}
	calls := func() []report.WalkCall {
		if n.row != nil {
			return n.row.Calls()
		}
		return n.call.Calls()
	}()
	for i := range calls {
		functions := calls[i].Functions()
		n.below = append(n.below, &reportNode{parent: n, depth: n.depth + 1, function: functions[0], rest: functions[1:], call: &calls[i]})
	}
	return n.below
}

// expand opens a node and, as long as there is only one below it, that one.
func (n *reportNode) expand() {
	for n.leads() {
		n.open = true
		if len(n.children()) != 1 {
			return
		}
		n = n.below[0]
	}
}

func (n *reportNode) expandAll() {
	n.open = n.leads()
	for _, b := range n.children() {
		b.expandAll()
	}
}

// collapseAll closes a node and all that was opened below it.
func (n *reportNode) collapseAll() {
	n.open = false
	for _, b := range n.below {
		b.collapseAll()
	}
}

// root returns the row that a node belongs to.
func (n *reportNode) root() *reportNode {
	for n.parent != nil {
		n = n.parent
	}
	return n
}

// appendOpen appends a node and what is open below it.
func (n *reportNode) appendOpen(lines []*reportNode) []*reportNode {
	lines = append(lines, n)
	if n.open {
		for _, b := range n.children() {
			lines = b.appendOpen(lines)
		}
	}
	return lines
}

// appendAll appends a node and all below it.
func (n *reportNode) appendAll(all []*reportNode) []*reportNode {
	all = append(all, n)
	for _, b := range n.children() {
		all = b.appendAll(all)
	}
	return all
}

// has reports whether a line has a text in its name, which must be in lower case.
func (n *reportNode) has(text string) bool {
	if n.row != nil {
		return n.row.Has(text)
	}
	return strings.Contains(strings.ToLower(n.function.Name), text)
}
