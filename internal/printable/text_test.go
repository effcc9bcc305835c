package printable

import (
	"bytes"
	"testing"
)

func TestLines(t *testing.T) {
	if got, want := Lines("a\n\tb\x1bc\r\u0085d"), "a\n\tb?c??d"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestAppend(t *testing.T) {
	for _, s := range []string{"", "worker", "größe", "a\x1bb\nc"} {
		if got, want := string(Append([]byte("x"), s)), "x"+Text(s); got != want {
			t.Errorf("%q: %q, want %q", s, got, want)
		}
	}
}

func TestShort(t *testing.T) {
	for _, tt := range []struct {
		text, want string
		most       int
	}{
		{"", "", 4}, {"worker", "worker", 6}, {"worker", "work", 4}, {"a\nbc", "a?b", 3}, {"größe", "gr", 3}, {"größe", "grö", 4},
		{"日本", "日", 5}, {"\xff\xff", "\ufffd", 4}, {"größe", "", 0},
	} {
		if got := Short(tt.text, tt.most); got != tt.want {
			t.Errorf("Short(%q, %d) = %q, want %q", tt.text, tt.most, got, tt.want)
		}
	}
}

// TestPlain tries each byte at each position in texts of up to 17 bytes.
func TestPlain(t *testing.T) {
	for size := 1; size <= 17; size++ {
		for at := range size {
			for c := range 256 {
				text := bytes.Repeat([]byte("~"), size)
				text[at] = byte(c)
				if got, want := isPlain(text), c >= ' ' && c <= '~'; got != want {
					t.Fatalf("%q: %v", text, got)
				}
			}
		}
	}
}

func TestJSON(t *testing.T) {
	for s, want := range map[string]string{
		`"größe\n"`:               `"größe\n"`,
		"\"a\u009bb\x7fc\u0080\"": `"a\u009bb\u007fc\u0080"`,
	} {
		if got := string(JSON([]byte(s))); got != want {
			t.Errorf("%q: %q, want %q", s, got, want)
		}
	}
}

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
