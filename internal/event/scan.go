package event

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

const space = " \t\r\n"

// scanner reads an input from left to right. It knows the syntax of terms, but not which events a machine has.
type scanner struct {
	in  string
	pos int
}

// fail returns an error at a position.
func (s *scanner) fail(pos int, msg string, args ...any) error {
	err := fmt.Errorf(msg, args...)
	return &syntaxError{Input: s.in, Pos: pos, Msg: err.Error(), err: errors.Unwrap(err)}
}

// failNearest returns an error at a position, with the names that are nearest to the wrong one. It asks for all names when the error is printed:
// metrics ask for many events that the machine lacks, and print no error.
func (s *scanner) failNearest(pos int, wrong string, all func() []candidate, msg string, args ...any) error {
	return &syntaxError{Input: s.in, Pos: pos, Msg: fmt.Sprintf(msg, args...), nearest: func() []string { return nearest(wrong, all()) }}
}

func (s *scanner) end() bool { return s.pos == len(s.in) }

// at reports whether the next byte is c.
func (s *scanner) at(c byte) bool { return !s.end() && s.in[s.pos] == c }

// skip moves past the next byte if it is c.
func (s *scanner) skip(c byte) bool {
	if !s.at(c) {
		return false
	}
	s.pos++
	return true
}

func (s *scanner) skipSpace() {
	s.pos = len(s.in) - len(strings.TrimLeft(s.in[s.pos:], space))
}

// until moves to the first of the stop bytes, or to the end, and returns the text that it skips.
func (s *scanner) until(stop string) string {
	rest := s.in[s.pos:]
	if i := strings.IndexAny(rest, stop); i >= 0 {
		rest = rest[:i]
	}
	s.pos += len(rest)
	return rest
}

// word moves to the next separator and returns the text before it.
func (s *scanner) word() string { return s.until(",{}/:=" + space) }

// rune returns the next character, for messages.
func (s *scanner) rune() rune {
	for _, r := range s.in[s.pos:] {
		return r
	}
	return 0
}

// parseNumber parses a 64-bit number, decimal or hexadecimal with 0x.
func parseNumber(s string) (uint64, bool) {
	if hex, ok := strings.CutPrefix(strings.Replace(s, "0X", "0x", 1), "0x"); ok {
		n, err := strconv.ParseUint(hex, 16, 64)
		return n, err == nil
	}
	n, err := strconv.ParseUint(s, 10, 64)
	return n, err == nil
}
