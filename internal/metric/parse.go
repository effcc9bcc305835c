package metric

import "fmt"

// op is what a node computes.
type op int

const (
	number    op = iota
	name         // an event
	metric       // another metric
	literal      // a fact of the machine
	negate       // the operators
	add          //
	subtract     //
	multiply     //
	divide       //
	modulo       //
	less         //
	greater      //
	and          //
	xor          //
	or           //
	choose       // args[0] if args[1] else args[2]
	minimum      // the functions
	maximum      //
	ratio        //
	available    // has_event
	sources      // source_count
	compareID    // strcmp_cpuid_str
)

// node is a node of an expression's tree.
type node struct {
	op     op
	args   []*node
	number float64
	name   string // of an event, metric or literal
	metric *Expr  // of a metric
}

// Expr is the expression of a metric.
type Expr struct{ root *node }

// Limits of what Parse accepts. The longest expression of Linux 7.2 has 2,241 bytes.
const (
	maxSize  = 1 << 16
	maxDepth = 200
)

// binary has the operators with their precedence, as in perf: comparisons bind tighter than & ^ |.
var binary = map[string]struct {
	op         op
	precedence int
}{
	"|": {or, 1}, "^": {xor, 2}, "&": {and, 3},
	"<": {less, 4}, ">": {greater, 4},
	"+": {add, 5}, "-": {subtract, 5},
	"*": {multiply, 6}, "/": {divide, 6}, "%": {modulo, 6},
}

// functions have their number of arguments. Those with one take the name of an event or CPU, not an expression.
var functions = map[string]struct {
	op   op
	args int
}{
	"min": {minimum, 2}, "max": {maximum, 2}, "d_ratio": {ratio, 2},
	"has_event": {available, 1}, "source_count": {sources, 1}, "strcmp_cpuid_str": {compareID, 1},
}

// Parse parses an expression of perf's metrics. An error says where the expression is wrong.
func Parse(s string) (*Expr, error) {
	if len(s) > maxSize {
		return nil, fmt.Errorf("metric expression of %d bytes: bperf accepts at most %d", len(s), maxSize)
	}
	p := parser{lexer: lexer{in: s}}
	if err := p.advance(); err != nil {
		return nil, err
	}
	root, err := p.conditional()
	if err != nil {
		return nil, err
	}
	if p.token.kind != endToken {
		return nil, p.fail(p.token.pos, "expected an operator or the end")
	}
	return &Expr{root}, nil
}

// parser parses by recursive descent.
type parser struct {
	lexer
	token token // the next one
	depth int
}

func (p *parser) advance() (err error) {
	p.token, err = p.next()
	return err
}

// at reports whether the next token is this sign or keyword.
func (p *parser) at(text string) bool {
	return (p.token.kind == signToken || p.token.kind == wordToken) && p.token.text == text
}

// expect skips a sign or keyword.
func (p *parser) expect(text string) error {
	if !p.at(text) {
		return p.fail(p.token.pos, fmt.Sprintf("expected %q", text))
	}
	return p.advance()
}

// enter limits the depth of recursion, which the stack pays for.
func (p *parser) enter() error {
	if p.depth++; p.depth > maxDepth {
		return p.fail(p.token.pos, fmt.Sprintf("more than %d levels of parentheses", maxDepth))
	}
	return nil
}

// conditional parses "a if condition else b", in which b can be another conditional.
func (p *parser) conditional() (*node, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	value, err := p.operators(1)
	if err != nil || !p.at("if") {
		return value, err
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	condition, err := p.operators(1)
	if err != nil {
		return nil, err
	}
	if err := p.expect("else"); err != nil {
		return nil, err
	}
	otherwise, err := p.conditional()
	if err != nil {
		return nil, err
	}
	return &node{op: choose, args: []*node{value, condition, otherwise}}, nil
}

// operators parses operands that operators of at least this precedence join. All of them are left-associative.
func (p *parser) operators(precedence int) (*node, error) {
	left, err := p.unary()
	if err != nil {
		return nil, err
	}
	for p.token.kind == signToken {
		o, is := binary[p.token.text]
		if !is || o.precedence < precedence {
			break
		}
		if err := p.advance(); err != nil {
			return nil, err
		}
		right, err := p.operators(o.precedence + 1)
		if err != nil {
			return nil, err
		}
		left = &node{op: o.op, args: []*node{left, right}}
	}
	return left, nil
}

// unary parses an operand with any number of minus signs.
func (p *parser) unary() (*node, error) {
	if !p.at("-") {
		return p.operand()
	}
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	if err := p.advance(); err != nil {
		return nil, err
	}
	of, err := p.unary()
	if err != nil {
		return nil, err
	}
	return &node{op: negate, args: []*node{of}}, nil
}

// operand parses a number, a name, a literal, a function, or an expression in parentheses.
func (p *parser) operand() (*node, error) {
	t := p.token
	if err := p.advance(); err != nil {
		return nil, err
	}
	switch {
	case t.kind == numberToken:
		return constant(t.number), nil
	case t.kind == nameToken:
		return &node{op: name, name: t.text}, nil
	case t.kind == literalToken:
		return &node{op: literal, name: t.text}, nil
	case t.kind == wordToken && t.text == "NaN":
		return constant(nan), nil
	case t.kind == wordToken && functions[t.text].args > 0:
		return p.function(t.text)
	case t.kind == signToken && t.text == "(":
		n, err := p.conditional()
		if err != nil {
			return nil, err
		}
		return n, p.expect(")")
	}
	return nil, p.fail(t.pos, "expected a number, an event, or a parenthesis")
}

// function parses the arguments of a function.
func (p *parser) function(called string) (*node, error) {
	f := functions[called]
	if err := p.expect("("); err != nil {
		return nil, err
	}
	n := &node{op: f.op}
	if f.args == 1 {
		if p.token.kind != nameToken {
			return nil, p.fail(p.token.pos, called+" needs a name")
		}
		n.name = p.token.text
		if err := p.advance(); err != nil {
			return nil, err
		}
		return n, p.expect(")")
	}
	for i := range f.args {
		if i > 0 {
			if err := p.expect(","); err != nil {
				return nil, err
			}
		}
		arg, err := p.conditional()
		if err != nil {
			return nil, err
		}
		n.args = append(n.args, arg)
	}
	return n, p.expect(")")
}

func constant(v float64) *node { return &node{op: number, number: v} }
