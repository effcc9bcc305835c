package printable

import (
	"strings"
	"testing"
)

func TestExcerpt(t *testing.T) {
	long := strings.Repeat("a", 60)
	for _, test := range []struct {
		input string
		at    int
		want  string
	}{
		{"", 0, "  \n  ^"},
		{"cycles,foo", 7, "  cycles,foo\n         ^"},
		{"cycles,", 7, "  cycles,\n         ^"},
		{"a\t,\n\x1b[2J", 3, "  a ,  [2J\n     ^"},
		{"日本=1,foo", len("日本=1,"), "  日本=1,foo\n         ^"},
		{"e\u0301é\u200b,foo", len("e\u0301é\u200b,"), "  e\u0301é ,foo\n      ^"},
		{"😀,foo", len("😀,"), "  😀,foo\n     ^"},
		{"\xff\xff,foo", 3, "  \ufffd\ufffd,foo\n     ^"},
		{long + ",b" + long, 61, "  …" + long[:49] + ",b" + long[:49] + "…\n  " + strings.Repeat(" ", 51) + "^"},
	} {
		if got := Excerpt(test.input, test.at); got != test.want {
			t.Errorf("%q at %d:\n%s\nwant\n%s", test.input, test.at, got, test.want)
		}
	}
}
