package tracedata

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// parser parses the arguments of a print format. It supports all expressions in the kernel's formats, except a few that only the kernel can
// evaluate: calls of its functions, and statements.
type parser struct {
	f      *Format
	tokens []token
	at     int
	depth  int

	inPair  bool // unknown constants are allowed
	unknown int  // number of unknown constants
}

// maxDepth is the maximum nesting of expressions.
const maxDepth = 200

// parsePrint parses "format", argument, …
func parsePrint(f *Format) ([]piece, error) {
	tokens, err := lex(f.Print)
	if err != nil {
		return nil, err
	}
	p := &parser{f: f, tokens: tokens}
	if p.peek().kind != tokenText {
		return nil, errors.New("it does not begin with a string")
	}
	format := p.next().text
	var args []node
	for p.accept(",") {
		n, err := p.expression()
		if err != nil {
			return nil, err
		}
		args = append(args, n)
	}
	if t := p.peek(); t.kind != tokenEnd {
		return nil, fmt.Errorf("%q is not expected there", t.text)
	}
	return parseVerbs(format, args)
}

func (p *parser) peek() token {
	if p.at >= len(p.tokens) {
		return token{}
	}
	return p.tokens[p.at]
}

func (p *parser) next() token {
	t := p.peek()
	p.at++
	return t
}

func (p *parser) is(op string) bool {
	t := p.peek()
	return t.kind == tokenOperator && t.text == op
}

func (p *parser) accept(op string) bool {
	if p.is(op) {
		p.at++
		return true
	}
	return false
}

func (p *parser) expect(op string) error {
	if !p.accept(op) {
		return fmt.Errorf("%q stands where %q should", p.peek().text, op)
	}
	return nil
}

func (p *parser) expression() (node, error) {
	p.depth++
	defer func() { p.depth-- }()
	if p.depth > maxDepth {
		return nil, errors.New("it is nested too deep")
	}
	condition, err := p.binary(0)
	if err != nil || !p.accept("?") {
		return condition, err
	}
	yes := condition
	if !p.is(":") { // a ?: b is an extension of gcc
		if yes, err = p.expression(); err != nil {
			return nil, err
		}
	}
	if err := p.expect(":"); err != nil {
		return nil, err
	}
	no, err := p.expression()
	if err != nil {
		return nil, err
	}
	return choiceNode{condition, yes, no}, nil
}

// levels are the binary operators by precedence, the lowest first.
var levels = [][]string{{"||"}, {"&&"}, {"|"}, {"^"}, {"&"}, {"==", "!="}, {"<", ">", "<=", ">="}, {"<<", ">>"}, {"+", "-"}, {"*", "/", "%"}}

func (p *parser) binary(level int) (node, error) {
	if level == len(levels) {
		return p.unary()
	}
	left, err := p.binary(level + 1)
	if err != nil {
		return nil, err
	}
	for p.peek().kind == tokenOperator && slices.Contains(levels[level], p.peek().text) {
		op := p.next().text
		right, err := p.binary(level + 1)
		if err != nil {
			return nil, err
		}
		left = newBinary(op, left, right)
	}
	return left, nil
}

func (p *parser) unary() (node, error) {
	p.depth++
	defer func() { p.depth-- }()
	if p.depth > maxDepth {
		return nil, errors.New("it is nested too deep")
	}
	t := p.peek()
	if t.kind == tokenOperator {
		switch t.text {
		case "-", "~", "!", "+":
			p.at++
			of, err := p.unary()
			if err != nil {
				return nil, err
			}
			return unaryNode{t.text, of}, nil
		case "*":
			p.at++
			of, err := p.unary()
			if err != nil {
				return nil, err
			}
			return p.element(of, nil), nil
		case "&":
			p.at++
			return p.unary() // operand is an array element or a field, which has bytes
		case "(":
			return p.parenthesis()
		}
	}
	n, err := p.primary()
	if err != nil {
		return nil, err
	}
	return p.postfix(n)
}

// element returns base[index].
func (p *parser) element(base, index node) node {
	size := base.typ().pointer
	t := ctype{size: max(1, size)}
	if c, ok := base.(castNode); ok {
		t = c.elementType()
	}
	if b, ok := base.(binaryNode); ok && b.op == "+" && index == nil { // *(p + i)
		return p.element(b.left, b.right)
	}
	return indexNode{base, index, t}
}

func (n castNode) elementType() ctype { return ctype{size: max(1, n.t.pointer)} }

func (p *parser) postfix(n node) (node, error) {
	for p.accept("[") {
		index, err := p.expression()
		if err != nil {
			return nil, err
		}
		if err := p.expect("]"); err != nil {
			return nil, err
		}
		n = p.element(n, index)
	}
	return n, nil
}

// parenthesis parses a cast or an expression in parentheses.
func (p *parser) parenthesis() (node, error) {
	p.at++
	if p.is("{") {
		return nil, errors.New("it has statements")
	}
	start := p.at
	if p.peek().text == "REC" && p.at+2 < len(p.tokens) && p.tokens[p.at+1].text == ")" && p.tokens[p.at+2].text == "->" {
		p.at += 2
		return p.field()
	}
	if t, ok := p.typeName(); ok && p.accept(")") {
		if next := p.peek(); next.kind != tokenEnd && (next.kind != tokenOperator || strings.Contains("(-~!*&", next.text)) {
			of, err := p.unary()
			if err != nil {
				return nil, err
			}
			if t.size == 0 { // an unknown type
				return of, nil
			}
			return castNode{of, t}, nil
		}
	}
	p.at = start
	n, err := p.expression()
	if err != nil {
		return nil, err
	}
	if err := p.expect(")"); err != nil {
		return nil, err
	}
	return p.postfix(n)
}

// typeName parses the name of a type. The size is 0 if the type is unknown.
func (p *parser) typeName() (ctype, bool) {
	var words []string
	for p.peek().kind == tokenName && p.peek().text != "REC" {
		words = append(words, p.next().text)
	}
	for p.is("*") {
		p.at++
		words = append(words, "*")
	}
	if len(words) == 0 || words[0] == "*" {
		return ctype{}, false
	}
	t, known := namedType(strings.ReplaceAll(strings.Join(words, " "), " *", "*"), p.f.longSize)
	if known {
		return t, true
	}
	return ctype{}, len(words) == 1 || typeWords[words[0]]
}

func (p *parser) primary() (node, error) {
	t := p.next()
	switch t.kind {
	case tokenNumber:
		return constant{t.value, t.typ}, nil
	case tokenText:
		return literal(t.text), nil
	case tokenName:
		if t.text == "REC" {
			return p.field()
		}
		if p.accept("(") {
			return p.call(t.text)
		}
		if value, ok := enums[t.text]; ok {
			return constant{value, typeInt}, nil
		}
		if p.inPair {
			p.unknown++
			return constant{0, typeInt}, nil
		}
		return nil, fmt.Errorf("%s is not known", t.text)
	case tokenEnd:
		return nil, errors.New("it ends too early")
	}
	return nil, fmt.Errorf("%q is not expected there", t.text)
}

// field parses what follows REC.
func (p *parser) field() (node, error) {
	if err := p.expect("->"); err != nil {
		return nil, err
	}
	return p.named()
}

func (p *parser) named() (fieldNode, error) {
	name := p.next()
	field := p.f.Field(name.text)
	if field == nil {
		return fieldNode{}, fmt.Errorf("there is no field %s", name.text)
	}
	return newFieldNode(p.f, field), nil
}

// call parses the arguments of a function.
func (p *parser) call(name string) (node, error) {
	var n node
	var err error
	switch name {
	case "__get_str", "__get_rel_str", "__get_dynamic_array", "__get_rel_dynamic_array", "__get_sockaddr", "__get_rel_sockaddr":
		n, err = p.named()
	case "__get_dynamic_array_len", "__get_rel_dynamic_array_len":
		var of fieldNode
		of, err = p.named()
		n = lengthNode{of}
	case "__get_bitmask", "__get_rel_bitmask", "__get_cpumask", "__get_rel_cpumask":
		var of fieldNode
		of, err = p.named()
		n = bitmapNode{of: of}
	case "__print_flags", "__print_flags_u64":
		n, err = p.flags()
	case "__print_symbolic", "__print_symbolic_u64":
		n, err = p.symbolic()
	case "__print_hex", "__print_hex_str":
		var args []node
		if args, err = p.arguments(2); err == nil {
			n = hexNode{of: args[0], length: args[1], blanks: name == "__print_hex"}
		}
	case "__print_array":
		var args []node
		if args, err = p.arguments(3); err == nil {
			n = arrayNode{of: args[0], count: args[1], size: args[2]}
		}
	case "__builtin_expect":
		var args []node
		if args, err = p.arguments(2); err == nil {
			n = args[0]
		}
	case "sizeof":
		n, err = p.sizeOf()
	default:
		return nil, fmt.Errorf("it calls %s of the kernel", name)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := p.expect(")"); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return p.postfix(n)
}

func (p *parser) arguments(n int) ([]node, error) {
	args := make([]node, n)
	for i := range args {
		if i > 0 {
			if err := p.expect(","); err != nil {
				return nil, err
			}
		}
		var err error
		if args[i], err = p.expression(); err != nil {
			return nil, err
		}
	}
	return args, nil
}

func (p *parser) flags() (node, error) {
	of, err := p.expression()
	if err != nil {
		return nil, err
	}
	if err := p.expect(","); err != nil {
		return nil, err
	}
	delimiter := p.next()
	if delimiter.kind != tokenText {
		return nil, errors.New("the delimiter is no string")
	}
	pairs, err := p.pairs()
	return flagsNode{of: of, delimiter: delimiter.text, pairs: pairs}, err
}

func (p *parser) symbolic() (node, error) {
	of, err := p.expression()
	if err != nil {
		return nil, err
	}
	pairs, err := p.pairs()
	return symbolicNode{of: of, pairs: pairs}, err
}

// pairs parses , { value, "name" } …
func (p *parser) pairs() ([]pair, error) {
	var pairs []pair
	for p.accept(",") {
		if p.is(")") {
			break
		}
		if err := p.expect("{"); err != nil {
			return nil, err
		}
		if p.accept("}") { // the end of some lists
			continue
		}
		pair, ok, err := p.pair()
		if err != nil {
			return nil, err
		}
		if ok {
			pairs = append(pairs, pair)
		}
		if err := p.expect("}"); err != nil {
			return nil, err
		}
	}
	return pairs, nil
}

// enums are the constants that kernels do not replace by their numbers in formats.
var enums = map[string]uint64{"HI_SOFTIRQ": 0, "TIMER_SOFTIRQ": 1, "NET_TX_SOFTIRQ": 2, "NET_RX_SOFTIRQ": 3, "BLOCK_SOFTIRQ": 4,
	"IRQ_POLL_SOFTIRQ": 5, "TASKLET_SOFTIRQ": 6, "SCHED_SOFTIRQ": 7, "HRTIMER_SOFTIRQ": 8, "RCU_SOFTIRQ": 9,
	"HRTIMER_NORESTART": 0, "HRTIMER_RESTART": 1}

// pair parses a value and a name. It returns false if the value has an unknown constant, or if the pair is the end of a list and has no
// name.
func (p *parser) pair() (pair, bool, error) {
	known := p.unknown
	p.inPair = true
	value, err := p.expression()
	p.inPair = false
	if err == nil {
		err = p.expect(",")
	}
	if err != nil {
		return pair{}, false, err
	}
	name, err := p.expression()
	text, isText := name.(literal)
	return pair{value, string(text)}, isText && p.unknown == known, err
}

// sizeOf parses the operand of sizeof: a type or an expression.
func (p *parser) sizeOf() (node, error) {
	start := p.at
	if t, ok := p.typeName(); ok && t.size > 0 && p.is(")") {
		return constant{uint64(t.size), ctype{size: 8}}, nil
	}
	p.at = start
	of, err := p.expression()
	if err != nil {
		return nil, err
	}
	size := of.typ().size
	if field, ok := of.(fieldNode); ok {
		size = field.field.Size
	}
	return constant{uint64(size), ctype{size: 8}}, nil
}
