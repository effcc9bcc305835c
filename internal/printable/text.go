// Package printable makes text that others have named fit for lines and terminals.
package printable

import (
	"strings"
	"unicode"
)

// Text has question marks in place of control characters, which would end a line or move the cursor of a terminal.
func Text(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '?'
		}
		return r
	}, s)
}
