package filter

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/bperf/bperf/internal/event"
)

// Limits of an expression: BPF jumps reach 32,767 instructions, and the parser needs stack for each level of nesting.
const (
	mostTerms  = 2000
	mostLevels = 200
)

// nameEnds are the characters that a name may contain only in quotes.
const nameEnds = " \t\r\n,|&()"

// Parse parses an expression. Its errors are of type *SyntaxError.
func Parse(expr string) (*Filter, error) {
	p := &parser{expr: expr}
	root, err := p.list(0)
	if err != nil {
		return nil, err
	}
	if p.space(); p.at < len(expr) {
		return nil, p.fail("terms are joined by , (and), && or ||")
	}
	return &Filter{root}, nil
}

type parser struct {
	expr  string
	at    int
	terms int
}

func (p *parser) fail(format string, a ...any) error { return p.failAt(p.at, format, a...) }

func (p *parser) failAt(at int, format string, a ...any) error {
	return &SyntaxError{p.expr, at, fmt.Sprintf(format, a...)}
}

func (p *parser) rest() string { return p.expr[p.at:] }

func (p *parser) space() { p.at = len(p.expr) - len(strings.TrimLeft(p.rest(), " \t\r\n")) }

// take skips white space, and a token if it follows. It reports whether the token follows.
func (p *parser) take(token string) bool {
	p.space()
	if !strings.HasPrefix(p.rest(), token) {
		return false
	}
	p.at += len(token)
	return true
}

func (p *parser) list(level int) (*node, error) { return p.joined(all, ",", level, p.either) }

func (p *parser) either(level int) (*node, error) { return p.joined(anyOf, "||", level, p.both) }

func (p *parser) both(level int) (*node, error) { return p.joined(all, "&&", level, p.unary) }

// joined parses one or more operands with an operator between them.
func (p *parser) joined(k kind, token string, level int, operand func(level int) (*node, error)) (*node, error) {
	first, err := operand(level)
	if err != nil {
		return nil, err
	}
	n := &node{kind: k, operands: []*node{first}}
	for p.take(token) {
		next, err := operand(level)
		if err != nil {
			return nil, err
		}
		n.operands = append(n.operands, next)
	}
	if len(n.operands) == 1 {
		return first, nil
	}
	return n, nil
}

func (p *parser) unary(level int) (*node, error) {
	if level > mostLevels {
		return nil, p.fail("there are more than %d parentheses and negations within each other", mostLevels)
	}
	if p.take("!") {
		operand, err := p.unary(level + 1)
		if err != nil {
			return nil, err
		}
		return &node{kind: not, operands: []*node{operand}}, nil
	}
	if p.space(); !p.take("(") {
		return p.comparison()
	}
	opened := p.at - 1
	n, err := p.list(level + 1)
	if err != nil {
		return nil, err
	}
	if p.take(")") {
		return n, nil
	}
	if p.at == len(p.expr) {
		return nil, p.failAt(opened, "this parenthesis is not closed")
	}
	return nil, p.fail("terms are joined by , (and), && or ||, and a parenthesis is open")
}

// comparison parses a field, an operator and a value.
func (p *parser) comparison() (*node, error) {
	p.space()
	n := &node{at: p.at}
	name := p.word()
	if name == "" {
		return nil, p.fail("a term is expected here, such as pid == 1234")
	}
	n.field = byName[name]
	if n.field == nil {
		known := slices.Sorted(maps.Keys(byName))
		hint := "there are " + strings.Join(known, ", ")
		if near := event.Nearest(name, known); len(near) > 0 {
			hint = "did you mean " + strings.Join(near, ", ") + "?"
		}
		return nil, p.failAt(n.at, "there is no field %q: %s", name, hint)
	}
	if p.terms++; p.terms > mostTerms {
		return nil, p.failAt(n.at, "there are more than %d terms", mostTerms)
	}
	p.space()
	before := p.at
	if n.operator = p.operator(); n.operator == "" {
		return nil, p.fail("one of == != > >= < <= & is expected behind %s", name)
	}
	p.space()
	if !n.field.names {
		return n, p.number(n)
	}
	if n.operator != equal && n.operator != notEqual {
		return nil, p.failAt(before, "%s is compared by == or !=", name)
	}
	return n, p.name(n)
}

// word consumes letters, digits and underscores, and returns them.
func (p *parser) word() string {
	end := strings.IndexFunc(p.rest(), func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
	if end < 0 {
		end = len(p.rest())
	}
	word := p.rest()[:end]
	p.at += end
	return word
}

func (p *parser) operator() operator {
	if strings.HasPrefix(p.rest(), "&&") {
		return ""
	}
	for _, o := range []operator{equal, notEqual, greaterOrEqual, lessOrEqual, greater, less, hasBits} {
		if p.take(string(o)) {
			return o
		}
	}
	return ""
}

// number parses a number, or one of the field's words.
func (p *parser) number(n *node) error {
	start := p.at
	text := p.word()
	if value, ok := n.field.words[text]; ok {
		n.value = value
		return nil
	}
	digits, base := text, 10
	if len(text) > 1 && (text[:2] == "0x" || text[:2] == "0X") {
		digits, base = text[2:], 16
	}
	value, err := strconv.ParseUint(digits, base, 64)
	if err == nil {
		n.value = value
		return nil
	}
	if words := slices.Sorted(maps.Keys(n.field.words)); len(words) > 0 {
		return p.failAt(start, "%s is a number, or one of %s", n.field.name, strings.Join(words, ", "))
	}
	return p.failAt(start, "%s is a number from 0 to 0xffffffffffffffff, decimal or with 0x in front", n.field.name)
}

// name parses a name, with or without quotes.
func (p *parser) name(n *node) error {
	start := p.at
	if p.take(`"`) {
		text, _, closed := strings.Cut(p.rest(), `"`)
		if !closed {
			return p.failAt(start, "this quote is not closed")
		}
		n.text = text
		p.at += len(text) + 1
	} else {
		end := strings.IndexAny(p.rest(), nameEnds)
		if end < 0 {
			end = len(p.rest())
		}
		n.text = p.rest()[:end]
		p.at += end
	}
	if n.text == "" {
		return p.failAt(start, "%s is compared with a name or an ID", n.field.name)
	}
	if n.field.name == "bpf_prog" {
		if _, err := selector(n.text); err != nil {
			return p.failAt(start, "%v", err)
		}
	}
	return nil
}
