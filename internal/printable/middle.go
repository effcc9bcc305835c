package printable

import "github.com/clipperhouse/displaywidth"

// Middle limits a name to the width, in columns of a terminal, by leaving out its middle: names often differ at their ends.
func Middle(name string, width int) string {
	if displaywidth.String(name) <= width {
		return name
	}
	letters := []rune(name)
	head, tail := 0, len(letters)
	for left, atHead := width-1, true; head < tail; atHead = !atHead { // the first letter at the head, the last one at the tail, …
		next := letters[head]
		if !atHead {
			next = letters[tail-1]
		}
		if left -= displaywidth.Rune(next); left < 0 {
			break
		}
		if atHead {
			head++
		} else {
			tail--
		}
	}
	if width < 1 {
		return ""
	}
	return string(letters[:head]) + "…" + string(letters[tail:])
}
