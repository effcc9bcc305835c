package symbol

import "testing"

func TestMaxNames(t *testing.T) {
	for strings, want := range map[int]int{0: 16 << 20, 1 << 20: 20 << 20, 100 << 20: 256 << 20} {
		if got := MaxNames(strings); got != want {
			t.Errorf("names of %d bytes of strings may have %d, not %d", strings, got, want)
		}
	}
}
