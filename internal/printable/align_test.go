package printable

import "testing"

func TestAlign(t *testing.T) {
	for _, tt := range []struct {
		text, left, right string
		width             int
	}{
		{"", "   ", "   ", 3}, {"ab", "ab ", " ab", 3}, {"ab", "ab    ", "    ab", 6}, {"abcd", "abcd", "abcd", 3}, {"ab", "ab", "ab", -1},
	} {
		if got := AlignLeft([]byte("x:"+tt.text), 2, tt.width); string(got) != "x:"+tt.left {
			t.Errorf("AlignLeft(%q, %d) = %q, want %q", tt.text, tt.width, got, "x:"+tt.left)
		}
		if got := AlignRight([]byte("x:"+tt.text), 2, tt.width); string(got) != "x:"+tt.right {
			t.Errorf("AlignRight(%q, %d) = %q, want %q", tt.text, tt.width, got, "x:"+tt.right)
		}
	}
}

func TestThousands(t *testing.T) {
	for digits, want := range map[string]string{"0": "0", "999": "999", "1000": "1,000", "1234567.89": "1,234,567.89", "123456": "123,456"} {
		if got := Thousands(digits); got != want {
			t.Errorf("Thousands(%q) = %q, want %q", digits, got, want)
		}
	}
}
