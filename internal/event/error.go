package event

import (
	"fmt"
	"strings"

	"github.com/bperf/bperf/internal/printable"
)

// syntaxError is an error in an event list, with its position. bperf exits with status 129 for it, as perf does.
type syntaxError struct {
	Input string
	Pos   int    // byte offset in Input, at most its length
	Msg   string // without a full stop

	nearest func() []string // finds similar valid names, the most similar first, when the error is printed; nil for none
	err     error           // the operating system's error, or nil
}

// Error returns several lines: the message, the input with a caret under the position, and the similar names.
func (e *syntaxError) Error() string {
	s := fmt.Sprintf("event syntax error: %s\n%s", printable.Text(shorten(e.Msg, 1000)), printable.Excerpt(e.Input, e.Pos))
	if e.nearest == nil {
		return s
	}
	if names := e.nearest(); len(names) > 0 {
		s += "\nDid you mean " + printable.Text(orList(names)) + "?"
	}
	return s
}

// Unwrap returns the operating system's error, or nil.
func (e *syntaxError) Unwrap() error { return e.err }

// shorten cuts s after room characters.
func shorten(s string, room int) string {
	if runes := []rune(s); len(runes) > room {
		return string(runes[:room]) + "…"
	}
	return s
}

func orList(names []string) string {
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}
