// Package filter reads expressions that say which samples to keep, as perf's --filter takes them on events that are no tracepoints, and makes
// a BPF program of each, which the kernel runs for each sample (BPF_PROG_TYPE_PERF_EVENT).
//
// An expression is terms joined by `,` (and), `||` and `&&`, of which the first binds the least and the last the most, so that perf's
// `a == 1, b == 2 || b == 3` means what it means to perf. `!` and parentheses are there, too. A term is a field, an operator (== != > >= < <= &)
// and a number, decimal or hexadecimal, or a word that the field knows. All numbers are unsigned, with 64 bits. `x & y` is whether they
// have a bit in common.
package filter

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/bperf/bperf/perfdata"
)

// Filter is an expression that was read.
type Filter struct{ root *node }

// node is a part of an expression.
type node struct {
	kind     kind
	operands []*node // of all, anyOf and not; not has one

	// Of a comparison:
	field    *field
	operator operator
	value    uint64
	text     string // of fields whose values are names, until they are resolved
	at       int    // where it begins in the expression
}

type kind int

const (
	comparison kind = iota
	all
	anyOf
	not
)

// operator is one of a comparison.
type operator string

const (
	equal          operator = "=="
	notEqual       operator = "!="
	greater        operator = ">"
	greaterOrEqual operator = ">="
	less           operator = "<"
	lessOrEqual    operator = "<="
	hasBits        operator = "&"
)

// SyntaxError says where an expression cannot be understood.
type SyntaxError struct {
	Expr string
	At   int    // byte, from 0
	Msg  string // without a full stop
}

func (e *SyntaxError) Error() string {
	const indent = "  "
	shown := strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, e.Expr)
	return fmt.Sprintf("filter: at character %d: %s\n%s%s\n%s%s^", e.At+1, e.Msg, indent, shown, indent, strings.Repeat(" ", e.At))
}

// SampleType is what samples must have for the program to read it.
func (f *Filter) SampleType() (bits perfdata.SampleType) {
	f.root.each(func(n *node) { bits |= n.field.sample })
	return bits
}

// each goes over all comparisons.
func (n *node) each(do func(*node)) {
	if n.kind == comparison {
		do(n)
	}
	for _, o := range n.operands {
		o.each(do)
	}
}

// String is the expression with all parentheses.
func (f *Filter) String() string { return f.root.String() }

func (n *node) String() string {
	switch n.kind {
	case not:
		return "!(" + n.operands[0].String() + ")"
	case all:
		return n.join(" && ")
	case anyOf:
		return n.join(" || ")
	}
	return n.field.name + " " + string(n.operator) + " " + n.operand()
}

func (n *node) join(with string) string {
	var parts []string
	for _, o := range n.operands {
		text := o.String()
		if o.kind == all || o.kind == anyOf {
			text = "(" + text + ")"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, with)
}

// operand is what a field is compared with, as it can be read again.
func (n *node) operand() string {
	if n.field.names {
		if strings.ContainsAny(n.text, nameEnds) {
			return `"` + n.text + `"`
		}
		return n.text
	}
	for word, value := range n.field.words {
		if value == n.value {
			return word
		}
	}
	return strconv.FormatUint(n.value, 10)
}
