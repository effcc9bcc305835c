// Package printable makes text from untrusted sources safe to print in lines and on terminals, and aligns it in columns.
package printable

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text returns s with a question mark in place of each control character, which could end a line or move the cursor of a terminal.
func Text(s string) string {
	if isPlain(s) {
		return s
	}
	return strings.Map(visible, s)
}

// Short returns Text(s), cut between two characters to at most most bytes. It is valid UTF-8, which is all that servers of metrics and
// profiles take.
func Short(s string, most int) string {
	return cut(Text(cut(s, most)), most) // an invalid byte becomes a longer character
}

func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}

// isPlain reports whether s is printable ASCII only, as nearly all text is. It checks eight bytes at a time, because all printed text
// passes through it.
func isPlain[S string | []byte](s S) bool {
	const (
		each = 0x0101010101010101
		high = 0x80 * each
	)
	i := 0
	for ; i+8 <= len(s); i += 8 {
		w := uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 | uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56
		if ((w-' '*each)|w|(w+each))&high != 0 { // a byte below ' ', one above '~', or DEL
			return false
		}
	}
	for ; i < len(s); i++ {
		if s[i]-' ' > '~'-' ' {
			return false
		}
	}
	return true
}

// Lines is like Text, but keeps line breaks and tabs.
func Lines(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		return visible(r)
	}, s)
}

func visible(r rune) rune {
	if unicode.IsControl(r) {
		return '?'
	}
	return r
}

// Append appends Text(s) to out. If s directly follows out in the same array, Append cleans s in place.
func Append[S string | []byte](out []byte, s S) []byte {
	if isPlain(s) {
		return append(out, s...)
	}
	return append(out, Text(string(s))...)
}

// JSON escapes the control characters that encoding/json leaves unescaped in strings: DEL and U+0080 to U+009F.
func JSON(text []byte) []byte {
	if bytes.IndexByte(text, del) < 0 && bytes.IndexByte(text, leadC1) < 0 {
		return text
	}
	const hex = "0123456789abcdef"
	var out []byte
	for _, r := range string(text) {
		if isRaw(r) {
			out = append(out, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
		} else {
			out = append(out, string(r)...)
		}
	}
	return out
}

// JSONEncoder returns an encoder that escapes all control characters in strings, and does not escape <, > and &.
func JSONEncoder(w io.Writer) *json.Encoder {
	e := json.NewEncoder(jsonWriter{w})
	e.SetEscapeHTML(false)
	return e
}

// jsonWriter applies JSON to the output of json.Encoder, which writes one whole value per call.
type jsonWriter struct{ w io.Writer }

func (j jsonWriter) Write(value []byte) (int, error) {
	if _, err := j.w.Write(JSON(value)); err != nil {
		return 0, err
	}
	return len(value), nil
}

const (
	del    = 0x7f
	leadC1 = 0xc2 // the first byte of U+0080 to U+00BF in UTF-8
)

func isRaw(r rune) bool { return r >= del && r <= 0x9f }
