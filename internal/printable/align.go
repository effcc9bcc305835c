package printable

import "strings"

// AlignLeft appends spaces until the text from start on has width bytes.
func AlignLeft(out []byte, start, width int) []byte {
	for len(out)-start < width {
		out = append(out, ' ')
	}
	return out
}

// AlignRight inserts spaces before the text from start on until it has width bytes.
func AlignRight(out []byte, start, width int) []byte {
	end := len(out)
	out = AlignLeft(out, start, width)
	missing := len(out) - end
	copy(out[start+missing:], out[start:end])
	for i := range missing {
		out[start+i] = ' '
	}
	return out
}

// Thousands returns a number that is not negative, in digits, with commas between thousands: "1234567.5" is "1,234,567.5".
func Thousands(digits string) string {
	whole, rest := digits, ""
	if i := strings.IndexByte(digits, '.'); i >= 0 {
		whole, rest = digits[:i], digits[i:]
	}
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	return whole + rest
}
