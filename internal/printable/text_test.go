package printable

import "testing"

func TestText(t *testing.T) {
	for s, want := range map[string]string{
		"":                            "",
		"kworker/0:1 größer":          "kworker/0:1 größer",
		"a\x1b[2Jb\tc\nd\x7fe\u009bf": "a?[2Jb?c?d?e?f",
	} {
		if got := Text(s); got != want {
			t.Errorf("%q: %q, want %q", s, got, want)
		}
	}
}
