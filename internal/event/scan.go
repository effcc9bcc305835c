package event

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

const space = " \t\r\n"

// parser parses one input from left to right.
type parser struct {
	m    *Machine
	in   string
	pos  int
	term int // number of terms so far, over all inputs
	size int // number of events so far, over all inputs
}

// fail returns an error at a position.
func (p *parser) fail(pos int, msg string, args ...any) error {
	err := fmt.Errorf(msg, args...)
	return &syntaxError{Input: p.in, Pos: pos, Msg: err.Error(), err: errors.Unwrap(err)}
}

// failNearest returns an error at a position, with the names that are nearest to the wrong one.
func (p *parser) failNearest(pos int, wrong string, all []candidate, msg string, args ...any) error {
	return &syntaxError{Input: p.in, Pos: pos, Msg: fmt.Sprintf(msg, args...), Nearest: nearest(wrong, all)}
}

func (p *parser) end() bool { return p.pos == len(p.in) }

// at reports whether the next byte is c.
func (p *parser) at(c byte) bool { return !p.end() && p.in[p.pos] == c }

// skip moves past the next byte if it is c.
func (p *parser) skip(c byte) bool {
	if !p.at(c) {
		return false
	}
	p.pos++
	return true
}

func (p *parser) skipSpace() {
	p.pos = len(p.in) - len(strings.TrimLeft(p.in[p.pos:], space))
}

// until moves to the first of the stop bytes, or to the end, and returns the text that it skips.
func (p *parser) until(stop string) string {
	rest := p.in[p.pos:]
	if i := strings.IndexAny(rest, stop); i >= 0 {
		rest = rest[:i]
	}
	p.pos += len(rest)
	return rest
}

// word moves to the next separator and returns the text before it.
func (p *parser) word() string { return p.until(",{}/:=" + space) }

// parseNumber parses a 64-bit number, decimal or hexadecimal with 0x.
func parseNumber(s string) (uint64, bool) {
	if hex, ok := strings.CutPrefix(strings.Replace(s, "0X", "0x", 1), "0x"); ok {
		n, err := strconv.ParseUint(hex, 16, 64)
		return n, err == nil
	}
	n, err := strconv.ParseUint(s, 10, 64)
	return n, err == nil
}
