package report

import (
	"cmp"
	"slices"
)

// sort puts rows into perf's order: by their values, then by their keys.
//
// With children, perf's comparison is not a consistent order: of rows with the same value, callers come before callees, but only within a
// thread. The position of a row therefore depends on the order of insertion. To get the same result, sort inserts rows as perf does: in the
// order of the keys, into a red-black tree.
func (t *table) sort() {
	by := slices.Clone(t.columns)
	slices.SortStableFunc(by, func(a, b *column) int { return cmp.Compare(a.rank, b.rank) })
	var compare, arrange []func(a, b *row) int
	for _, c := range by {
		compare = append(compare, func(a, b *row) int { return c.compareRows(t, a, b) })
		arrange = append(arrange, func(a, b *row) int { return c.arrange(t, a, b) })
	}
	arrange = append(arrange, func(a, b *row) int { return cmp.Compare(a.first, b.first) })
	if !t.o.Children {
		slices.SortFunc(t.rows, inTurn(slices.Concat(compare, arrange)))
		return
	}
	slices.SortFunc(t.rows, inTurn(arrange))
	before := inTurn(compare)
	tree := rowTree{before: func(a, b *row) bool { return before(a, b) < 0 }}
	for _, r := range t.rows {
		tree.insert(r)
	}
	t.rows = tree.appendTo(t.rows[:0])
}

// inTurn orders two rows by the first of the orders in which they differ.
func inTurn(orders []func(a, b *row) int) func(a, b *row) int {
	return func(a, b *row) int {
		for _, order := range orders {
			if n := order(a, b); n != 0 {
				return n
			}
		}
		return 0
	}
}

// arrange orders two rows by the identity of a key. It returns 0 for columns that are not keys.
func (c *column) arrange(t *table, a, b *row) int {
	if c.key == nil {
		return 0
	}
	if c.name != "symbol" && c.key.compare != nil {
		return c.key.compare(t.p, &a.properties, &b.properties)
	}
	if c.name != "symbol" {
		return cmp.Compare(c.key.text(t.p, &a.properties, 0), c.key.text(t.p, &b.properties, 0))
	}
	resolved, other := a.frame.Function != 0, b.frame.Function != 0
	if !resolved && !other {
		return cmp.Compare(a.frame.Address, b.frame.Address)
	}
	if resolved != other {
		return lastWithout(resolved, other, "", "")
	}
	f, g := t.p.Functions.At(a.frame.Function), t.p.Functions.At(b.frame.Function)
	return cmp.Or(lastWithout(a.frame.Module != 0, b.frame.Module != 0, moduleName(t.p, a.frame), moduleName(t.p, b.frame)),
		cmp.Compare(f.Start, g.Start), cmp.Compare(f.End, g.End),
		cmp.Compare(t.p.Strings.At(f.Name), t.p.Strings.At(g.Name))) // inlined functions have no addresses
}

// rowTree is a red-black tree of rows, as in Cormen, Leiserson, Rivest and Stein.
type rowTree struct {
	root   *rowNode
	before func(a, b *row) bool
}

type rowNode struct {
	row                 *row
	red                 bool
	parent, left, right *rowNode
}

func (t *rowTree) insert(r *row) {
	var parent *rowNode
	at := &t.root
	for *at != nil {
		parent = *at
		if t.before(r, parent.row) {
			at = &parent.left
		} else {
			at = &parent.right
		}
	}
	n := &rowNode{row: r, red: true, parent: parent}
	*at = n
	t.balance(n)
}

func (t *rowTree) balance(n *rowNode) {
	for n.parent != nil && n.parent.red {
		parent, grand := n.parent, n.parent.parent
		uncle, inner := grand.right, parent.right
		if parent == grand.right {
			uncle, inner = grand.left, parent.left
		}
		if uncle != nil && uncle.red {
			parent.red, uncle.red, grand.red = false, false, true
			n = grand
			continue
		}
		if n == inner {
			t.rotate(parent, n)
			n, parent = parent, n
		}
		parent.red, grand.red = false, true
		t.rotate(grand, parent)
	}
	t.root.red = false
}

// rotate moves a child up to the position of its parent.
func (t *rowTree) rotate(parent, child *rowNode) {
	var moved *rowNode
	if child == parent.left {
		moved, parent.left, child.right = child.right, child.right, parent
	} else {
		moved, parent.right, child.left = child.left, child.left, parent
	}
	if moved != nil {
		moved.parent = parent
	}
	child.parent = parent.parent
	switch {
	case parent.parent == nil:
		t.root = child
	case parent.parent.left == parent:
		parent.parent.left = child
	default:
		parent.parent.right = child
	}
	parent.parent = child
}

// appendTo appends the rows in their order.
func (t *rowTree) appendTo(rows []*row) []*row {
	var visit func(n *rowNode)
	visit = func(n *rowNode) {
		if n == nil {
			return
		}
		visit(n.left)
		rows = append(rows, n.row)
		visit(n.right)
	}
	visit(t.root)
	return rows
}
