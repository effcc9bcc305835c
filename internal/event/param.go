package event

import (
	"math"
	"slices"
	"strings"

	"github.com/bperf/bperf/perfdata"
)

// param is a term between the slashes of an event: a key with or without a value.
type param struct {
	key      string
	pos      int
	value    string
	valuePos int
	hasValue bool
}

func (a param) String() string {
	if a.hasValue {
		return a.key + "=" + a.value
	}
	return a.key
}

// params parses the terms between two slashes, if there are any.
func (s *scanner) params(t *term) error {
	open := s.pos
	if !s.skip('/') {
		return nil
	}
	t.slash = true
	s.skipSpace()
	for !s.skip('/') {
		if len(t.params) > 0 {
			if !s.skip(',') {
				return s.unclosed(open)
			}
			s.skipSpace()
		}
		a := param{pos: s.pos}
		if a.key = s.until(",/=" + space); a.key == "" {
			if s.end() {
				return s.unclosed(open)
			}
			return s.fail(s.pos, "a term is missing before this %q", s.rune())
		}
		if s.skip('=') {
			a.hasValue, a.valuePos = true, s.pos
			var err error
			if a.value, err = s.value(); err != nil {
				return err
			}
		}
		t.params = append(t.params, a)
		s.skipSpace()
	}
	return nil
}

func (s *scanner) unclosed(open int) error {
	if s.end() {
		return s.fail(open, "the terms that begin here are not closed with another slash")
	}
	return s.fail(s.pos, "expected a comma or a slash, not %q", s.rune())
}

// value parses the value of a term, which can be in quotes: name='a name, with anything'. It accepts a backslash before
// the quotes, which shells and scripts leave if they escape once too often.
func (s *scanner) value() (string, error) {
	start := s.pos
	escaped := strings.HasPrefix(s.in[s.pos:], `\'`) || strings.HasPrefix(s.in[s.pos:], `\"`)
	if escaped {
		s.pos++
	}
	if !s.at('\'') && !s.at('"') {
		v := s.until(",/" + space)
		if v == "" {
			return "", s.fail(start, "a value is missing here")
		}
		return v, nil
	}
	quote := s.in[s.pos : s.pos+1]
	s.pos++
	if escaped {
		quote = `\` + quote
	}
	length := strings.Index(s.in[s.pos:], quote)
	if length < 0 {
		return "", s.fail(start, "the quote that begins here is not closed")
	}
	v := s.in[s.pos : s.pos+length]
	s.pos += length + len(quote)
	return v, nil
}

// number returns the value of a term that must be a number.
func (s *scanner) number(a param) (uint64, error) {
	if !a.hasValue {
		return 0, s.fail(a.pos+len(a.key), "%s needs a value", a.key)
	}
	n, ok := parseNumber(a.value)
	if !ok {
		return 0, s.fail(a.valuePos, "%q is not a number of 64 bits, decimal or hexadecimal with 0x", a.value)
	}
	return n, nil
}

// commonParams has the terms that are valid for every event.
var commonParams = []string{"name", "period", "freq", "call-graph", "stack-size", "max-stack", "branch_type", "inherit", "no-inherit", "time",
	"percore"}

// commonParam applies a if it is one of commonParams; otherwise ok is false.
func (p *parser) commonParam(e *Event, a param) (ok bool, err error) {
	switch a.key {
	case "name":
		if a.value == "" {
			return true, p.fail(a.pos+len(a.key), "name needs a value")
		}
		e.Name = a.value
	case "period":
		e.Attr.Flags &^= perfdata.AttrFreq
		e.Attr.SamplePeriod, err = p.number(a)
	case "freq":
		if e.Tool == ToolNone {
			e.Attr.Flags |= perfdata.AttrFreq
		}
		e.Attr.SamplePeriod, err = p.number(a)
	case "percore":
		var on *bool
		if on, err = p.flag(a); err == nil {
			e.PerCore = *on
		}
	default:
		return p.samplingParam(e, a)
	}
	return true, err
}

// MostStack is the maximum number of bytes of the user's stack in a sample.
const MostStack = 65528

// samplingParam is commonParam for the terms that affect only samples.
func (p *parser) samplingParam(e *Event, a param) (ok bool, err error) {
	s := &e.Sampling
	switch a.key {
	case "call-graph":
		if s.CallGraph = a.value; !slices.Contains(callGraphs, a.value) {
			err = p.fail(a.pos, "call-graph is one of %s", strings.Join(callGraphs, ", "))
		}
	case "stack-size":
		var n uint64
		n, err = p.numberTo(a, 1, MostStack)
		s.StackSize = uint32(n+7) &^ 7
	case "max-stack":
		var n uint64
		n, err = p.numberTo(a, 1, math.MaxUint16)
		s.MaxStack = uint16(n)
	case "branch_type":
		if s.Branches, err = ParseBranches(a.value); err != nil {
			err = p.fail(a.pos, "branch_type=%s: %v", a.value, err)
		}
	case "inherit", "no-inherit":
		s.Inherit, err = p.flag(a)
		if err == nil && a.key == "no-inherit" {
			*s.Inherit = !*s.Inherit
		}
	case "time":
		s.Time, err = p.flag(a)
	case "overwrite", "no-overwrite":
		return true, p.fail(a.pos, "rings keep what is newest for all events or for none: leave out %s, and choose with record --overwrite", a.key)
	default:
		return false, nil
	}
	return true, err
}

var callGraphs = []string{"no", "fp", "bpf", "dwarf", "lbr"}

// numberTo returns the value of a term that must be a number from least to most.
func (s *scanner) numberTo(a param, least, most uint64) (uint64, error) {
	n, err := s.number(a)
	if err == nil && (n < least || n > most) {
		err = s.fail(a.valuePos, "%s is a number from %d to %d", a.key, least, most)
	}
	return n, err
}

// flag returns the value of a boolean term, which is true without a value.
func (s *scanner) flag(a param) (*bool, error) {
	if !a.hasValue {
		return new(true), nil
	}
	n, err := s.numberTo(a, 0, 1)
	return new(n == 1), err
}
