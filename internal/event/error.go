package event

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// syntaxError says what is wrong with an event that was asked for, and where. The command line
// ends with status 129 for it, as perf does.
type syntaxError struct {
	Input   string
	Pos     int      // byte offset in Input, at most its length
	Msg     string   // without a full stop
	Nearest []string // names that may have been meant, the likeliest first

	err error // what the operating system answered, or nil
}

// Error shows the input with a caret under the position, the message, and the names that may have
// been meant. It has several lines.
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

// Unwrap is what the operating system answered, if it is to blame.
func (e *syntaxError) Unwrap() error { return e.err }

// excerpt is what fits on a line, before and behind the position.
func excerpt(input string, pos int) (before, after string) {
	const room = 50
	before, after = input[:pos], input[pos:]
	if runes := []rune(before); len(runes) > room {
		before = "…" + string(runes[len(runes)-room:])
	}
	return printable(before), printable(shorten(after, room))
}

// shorten cuts off what is behind so many characters.
func shorten(s string, room int) string {
	if runes := []rune(s); len(runes) > room {
		return string(runes[:room]) + "…"
	}
	return s
}

// printable keeps a caret below the place that it points to, and the terminal from being told
// what to do.
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
