package printable

import (
	"testing"

	"github.com/clipperhouse/displaywidth"

	"github.com/bperf/bperf/test/require"
)

func TestMiddle(t *testing.T) {
	require.NoKernel(t)
	for _, tt := range []struct {
		name  string
		width int
		want  string
	}{
		{"function", 8, "function"}, {"function", 7, "fun…ion"}, {"function", 6, "fun…on"}, {"function", 2, "f…"}, {"function", 1, "…"},
		{"function", 0, ""}, {"", 0, ""}, {"日本日本", 8, "日本日本"}, {"日本日本", 7, "日本…本"},
		{"日本日本", 6, "日…本"}, {"日本日本", 4, "日…"},
	} {
		if got := Middle(tt.name, tt.width); got != tt.want || displaywidth.String(got) > tt.width {
			t.Errorf("Middle(%q, %d) = %q, want %q", tt.name, tt.width, got, tt.want)
		}
	}
}
