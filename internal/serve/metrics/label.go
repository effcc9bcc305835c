package metrics

import (
	"strings"
	"unicode/utf8"

	"github.com/bperf/bperf/internal/printable"
)

// maxLabel is the limit of a label value, in bytes. Names of Kubernetes have at most 253; IDs of containers have 64.
const maxLabel = 256

// label returns untrusted text as a label value: valid UTF-8 without control characters, at most maxLabel bytes long.
func label(s string) string {
	if len(s) > maxLabel {
		cut := maxLabel
		for cut > maxLabel-utf8.UTFMax && !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut]
	}
	return strings.ToValidUTF8(printable.Text(s), "?")
}
