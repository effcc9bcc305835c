package stacks

import (
	"runtime"
	"testing"
)

func TestWalk(t *testing.T) {
	for _, n := range []uint{1, 2, 3, 1000} {
		calls, seen := uint(0), map[[32]uintptr]bool{}
		Walk(n, func() {
			var pcs [32]uintptr
			runtime.Callers(1, pcs[:])
			seen[pcs] = true
			calls++
		})
		if calls != n || uint(len(seen)) != n {
			t.Errorf("%d ways: %d calls with %d different stacks", n, calls, len(seen))
		}
	}
}
