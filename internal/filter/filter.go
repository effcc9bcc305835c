// Package filter parses filter expressions and compiles them to BPF programs, which the kernel runs for each sample
// (BPF_PROG_TYPE_PERF_EVENT). The syntax is that of perf's --filter on events other than tracepoints.
//
// An expression consists of terms joined by `,` (and), `||` and `&&`. `,` binds weakest and `&&` strongest, so that
// `a == 1, b == 2 || b == 3` means the same as in perf. An expression can also have `!` and parentheses. A term is a field, an operator
// (== != > >= < <= &) and a value. The value is a decimal or hexadecimal number, or one of the field's words. All numbers are unsigned and have
// 64 bits. `x & y` is true if x and y have a bit in common.
package filter

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/perfdata"
)

// Filter is a parsed expression.
type Filter struct{ root *node }

// node is a part of an expression.
type node struct {
	kind     kind
	operands []*node // of all, anyOf and not; not has one

	// Of a comparison:
	field    *field
	operator operator
	value    uint64
	text     string // the value of a field whose values are names
	at       int    // offset in the expression
}

type kind int

const (
	comparison kind = iota
	all
	anyOf
	not
)

// operator is the operator of a comparison.
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

// SyntaxError is an error in an expression, with its position.
type SyntaxError struct {
	Expr string
	At   int    // offset in Expr, in bytes
	Msg  string // without a full stop
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("filter: at character %d: %s\n%s", utf8.RuneCountInString(e.Expr[:e.At])+1, e.Msg, printable.Excerpt(e.Expr, e.At))
}

// SampleType returns the sample type that the event must have for the program to read the filter's fields.
func (f *Filter) SampleType() (bits perfdata.SampleType) {
	f.root.each(func(n *node) { bits |= n.field.sample })
	return bits
}

// each calls do for each comparison.
func (n *node) each(do func(*node)) {
	if n.kind == comparison {
		do(n)
	}
	for _, o := range n.operands {
		o.each(do)
	}
}

// String returns the expression with all parentheses.
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

// operand returns the value of a comparison in a form that Parse accepts.
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
