package object

import (
	"slices"
	"sync"
	"testing"
)

// TestShare uses one file from several goroutines right from the start, for the race detector: CGO_ENABLED=1 go test -race -run TestShare.
func TestShare(t *testing.T) {
	path := build(t, "gcc", "-g")
	alone, shared := open(t, path), open(t, path)
	addrs := code(alone, 1)
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for _, addr := range addrs {
				if got, want := shared.Frames(addr, nil), alone.Frames(addr, nil); !slices.Equal(got, want) {
					t.Errorf("%#x is %+v, want %+v", addr, got, want)
				}
				shared.Lines(addr, addr+8)
				shared.Symbol(addr)
			}
		})
	}
	wait.Wait()
}
