package event

import (
	"strings"

	"github.com/bperf/bperf/perfdata"
)

// breakpointTypes has the bits of bp_type by letter (include/uapi/linux/hw_breakpoint.h).
var breakpointTypes = map[rune]uint32{'r': 1, 'w': 2, 'x': 4}

// breakpoint parses mem:ADDRESS[/LENGTH][:ACCESS] after the "mem".
func (p *parser) breakpoint(t *term) (func(*term) ([]Event, error), error) {
	p.pos++ // the colon
	pos := p.pos
	text := p.word()
	address, ok := parseNumber(text)
	if !ok {
		return nil, p.fail(pos, "%q is not an address; a breakpoint is written mem:0xADDRESS[/LENGTH][:rwx]", text)
	}
	e := Event{PMU: "breakpoint", Scale: 1, Attr: perfdata.Attr{Type: perfdata.TypeBreakpoint, Config1: address}}
	if err := p.breakpointLength(&e); err != nil {
		return nil, err
	}
	if err := p.breakpointAccess(&e); err != nil {
		return nil, err
	}
	return func(t *term) ([]Event, error) { return p.generic(t, e) }, nil
}

// breakpointLength parses /LENGTH; a slash without a number begins the event's terms.
func (s *scanner) breakpointLength(e *Event) error {
	slash := s.pos
	if !s.skip('/') {
		return nil
	}
	text := s.word()
	if text == "" || text[0] < '0' || text[0] > '9' {
		s.pos = slash
		return nil
	}
	length, ok := parseNumber(text)
	if !ok || length < 1 || length > 8 {
		return s.fail(slash+1, "the length of a breakpoint is 1 to 8 bytes, not %s", text)
	}
	e.Attr.Config2 = length
	return nil
}

// breakpointAccess parses :ACCESS; the default is rw. It also sets the default length: 4 bytes, or that of a long for
// executions, as the kernel requires.
func (s *scanner) breakpointAccess(e *Event) error {
	colon := s.pos
	letters := ""
	if s.skip(':') {
		letters = s.word()
	}
	if letters == "" || strings.Trim(letters, "rwx") != "" {
		s.pos, letters = colon, "rw"
	}
	for i, c := range letters {
		if e.Attr.BPType&breakpointTypes[c] != 0 {
			return s.fail(colon+1+i, "access %q is given twice", c)
		}
		e.Attr.BPType |= breakpointTypes[c]
	}
	if e.Attr.Config2 == 0 && letters == "x" {
		e.Attr.Config2 = 8
	} else if e.Attr.Config2 == 0 {
		e.Attr.Config2 = 4
	}
	return nil
}
