package printable

import (
	"strings"
	"unicode"

	"github.com/clipperhouse/displaywidth"
)

// excerptRoom is how many characters before and after the position an excerpt has.
const excerptRoom = 50

// Excerpt returns two lines for an error message: what surrounds the byte offset at in the input, and a caret under the character there. Spaces
// take the place of characters that would move the cursor.
func Excerpt(input string, at int) string {
	const indent = "  "
	before, after := []rune(input[:at]), []rune(input[at:])
	first, last := "", ""
	if n := len(before) - excerptRoom; n > 0 {
		before, first = before[n:], "…"
	}
	if len(after) > excerptRoom {
		after, last = after[:excerptRoom], "…"
	}
	head := first + strings.Map(still, string(before))
	return indent + head + strings.Map(still, string(after)) + last + "\n" + indent + strings.Repeat(" ", displaywidth.String(head)) + "^"
}

// still replaces unprintable characters with spaces.
func still(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return ' '
}
