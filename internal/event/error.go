package event

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// syntaxError is an error in an event list, with its position. bperf exits with status 129 for it, as perf does.
type syntaxError struct {
	Input   string
	Pos     int      // byte offset in Input, at most its length
	Msg     string   // without a full stop
	Nearest []string // similar valid names, the most similar first

	err error // the operating system's error, or nil
}

// Error returns several lines: the input, a caret under the position with the message, and the similar names.
func (e *syntaxError) Error() string {
	const head = "event syntax error: "
	before, after := excerpt(e.Input, e.Pos)
	pad := strings.Repeat(" ", len(head)+1+utf8.RuneCountInString(before))
	s := fmt.Sprintf("%s'%s%s'\n%s^ %s", head, before, after, pad, printable(shorten(e.Msg, 1000)))
	if len(e.Nearest) > 0 {
		s += "\nDid you mean " + printable(orList(e.Nearest)) + "?"
	}
	return s
}

// Unwrap returns the operating system's error, or nil.
func (e *syntaxError) Unwrap() error { return e.err }

// excerpt returns the parts of input before and after pos that fit on a line.
func excerpt(input string, pos int) (before, after string) {
	const room = 50
	before, after = input[:pos], input[pos:]
	if runes := []rune(before); len(runes) > room {
		before = "…" + string(runes[len(runes)-room:])
	}
	return printable(before), printable(shorten(after, room))
}

// shorten cuts s after room characters.
func shorten(s string, room int) string {
	if runes := []rune(s); len(runes) > room {
		return string(runes[:room]) + "…"
	}
	return s
}

// printable replaces unprintable characters with spaces: they would misplace the caret or control the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, s)
}

func orList(names []string) string {
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}
