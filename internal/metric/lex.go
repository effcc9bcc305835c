package metric

import (
	"fmt"
	"strconv"
	"strings"
)

// token is a word of an expression.
type token struct {
	kind   tokenKind
	text   string // the name of an event without escapes, a function, a literal without #, or the sign itself
	number float64
	pos    int // byte offset in the expression
}

type tokenKind int

const (
	endToken tokenKind = iota
	numberToken
	nameToken
	literalToken
	wordToken // a keyword or function
	signToken
)

// words are the names that no event can have.
var words = map[string]bool{
	"if": true, "else": true, "min": true, "max": true, "d_ratio": true,
	"has_event": true, "source_count": true, "strcmp_cpuid_str": true, "NaN": true,
}

// syntaxError is an error in an expression.
type syntaxError struct {
	input string
	pos   int // byte offset in input
	msg   string
}

// Error returns the message with the part of the expression that follows its position.
func (e *syntaxError) Error() string {
	const room = 40
	rest := e.input[e.pos:]
	if len(rest) > room {
		rest = rest[:room] + "…"
	}
	if rest == "" {
		return fmt.Sprintf("metric expression: %s at its end", e.msg)
	}
	return fmt.Sprintf("metric expression: %s at %q", e.msg, rest)
}

// lexer splits an expression into tokens.
type lexer struct {
	in  string
	pos int
}

// next returns the next token, or an endToken.
func (l *lexer) next() (token, error) {
	for l.pos < len(l.in) && strings.IndexByte(" \t\n\r", l.in[l.pos]) >= 0 {
		l.pos++
	}
	t := token{pos: l.pos}
	if l.pos == len(l.in) {
		return t, nil
	}
	rest := l.in[l.pos:]
	switch c := rest[0]; {
	case strings.IndexByte("+-*/%&|^<>(),", c) >= 0:
		l.pos++
		t.kind, t.text = signToken, rest[:1]
	case c == '#':
		n := 1 + span(rest[1:], isLiteral)
		l.pos += n
		t.kind, t.text = literalToken, rest[1:n]
		if n == 1 {
			return t, l.fail(t.pos, "# without the name of a literal")
		}
	default:
		return l.operand(t, rest)
	}
	return t, nil
}

// operand returns a number, a name or a keyword, whichever is longest. "1e-9" is a number and "1_PORT" is a name.
func (l *lexer) operand(t token, rest string) (token, error) {
	name, size, err := l.name(rest)
	if err != nil {
		return t, err
	}
	digits := numberSpan(rest)
	switch {
	case digits > 0 && digits >= size:
		l.pos += digits
		t.kind, t.text = numberToken, rest[:digits]
		if t.number, err = strconv.ParseFloat(t.text, 64); err != nil {
			return t, l.fail(t.pos, "a number that is too large")
		}
	case size == 0:
		return t, l.fail(t.pos, "an unexpected character")
	default:
		l.pos += size
		t.kind, t.text = nameToken, name
		if words[name] {
			t.kind = wordToken
		}
	}
	return t, nil
}

// name returns the name at the start of s without its escapes, and its length in s. An @ stands for the slash of PMU/EVENT/, which would be
// a division. A backslash stands before characters that would be operators. Between two @, = needs none.
func (l *lexer) name(s string) (name string, size int, err error) {
	var b strings.Builder
	for size < len(s) {
		c := s[size]
		switch {
		case c == '\\':
			if size+1 == len(s) {
				return "", 0, l.fail(l.pos+size, "a backslash without a character behind it")
			}
			size++
			b.WriteByte(s[size])
		case c == '@':
			b.WriteByte('/')
		case isName(c):
			b.WriteByte(c)
		default:
			return b.String(), size, nil
		}
		size++
	}
	return b.String(), size, nil
}

func (l *lexer) fail(pos int, msg string) error { return &syntaxError{l.in, pos, msg} }

func isName(c byte) bool { return isWord(c) || c == '.' || c == ':' || c == '?' || c == '=' }

func isLiteral(c byte) bool { return isWord(c) || c == '.' || c == '-' }

func isWord(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func span(s string, in func(byte) bool) int {
	n := 0
	for n < len(s) && in(s[n]) {
		n++
	}
	return n
}

// numberSpan returns the length of the number that s starts with, or 0.
func numberSpan(s string) int {
	whole := span(s, isDigit)
	n := whole
	if n < len(s) && s[n] == '.' {
		fraction := span(s[n+1:], isDigit)
		if whole+fraction == 0 {
			return 0
		}
		n += 1 + fraction
	}
	if n == 0 || n == len(s) || s[n] != 'e' && s[n] != 'E' {
		return n
	}
	exponent := n + 1
	if exponent < len(s) && (s[exponent] == '-' || s[exponent] == '+') {
		exponent++
	}
	if digits := span(s[exponent:], isDigit); digits > 0 {
		return exponent + digits
	}
	return n
}
