package printable

import (
	"slices"
	"strings"
	"unicode"
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
	return indent + head + strings.Map(still, string(after)) + last + "\n" + indent + strings.Repeat(" ", Width(head)) + "^"
}

// still replaces unprintable characters with spaces.
func still(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return ' '
}

// Width returns how many columns of a terminal printable text takes: none for marks that combine with the character before, and two for wide
// characters of East Asia and emoji.
func Width(s string) (columns int) {
	for _, r := range s {
		switch {
		case r < unicode.MaxLatin1:
			columns++
		case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		case isWide(r):
			columns += 2
		default:
			columns++
		}
	}
	return columns
}

// isWide reports whether a character is in a block whose East_Asian_Width is W or F (Unicode Standard Annex #11).
func isWide(r rune) bool {
	wide := [...][2]rune{
		{0x1100, 0x115f}, {0x2e80, 0x303e}, {0x3041, 0x4dbf}, {0x4e00, 0xa4cf}, {0xa960, 0xa97c}, {0xac00, 0xd7a3}, {0xf900, 0xfaff}, {0xfe30, 0xfe6f},
		{0xff01, 0xff60}, {0xffe0, 0xffe6}, {0x1f300, 0x1f64f}, {0x1f680, 0x1f6ff}, {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd},
	}
	return slices.ContainsFunc(wide[:], func(block [2]rune) bool { return block[0] <= r && r <= block[1] })
}
