package machine

import (
	"strings"
	"testing"
)

func TestTail(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"silence", "\r\n", "; its console was silent"},
		{"all of little", "[ 0.1] Kernel panic\r\n", "; its console ended with:\n[ 0.1] Kernel panic"},
		{"the end of much", strings.Repeat("x", 3*tailSize) + "end", "; its console ended with:\n" + strings.Repeat("x", tailSize-3) + "end"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var tl tail
			tl.read(strings.NewReader(tt.in))
			if got := tl.String(); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
