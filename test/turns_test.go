package main

import (
	"fmt"
	"strings"
	"testing"
)

// TestTurns writes before and after the turn comes.
func TestTurns(t *testing.T) {
	var to strings.Builder
	turn := make(chan struct{})
	w := &turns{to: &to, turn: turn}
	fmt.Fprint(w, "1 2 ")
	fmt.Fprint(w, "3 ")
	if to.Len() > 0 {
		t.Errorf("copied %q before its turn", to.String())
	}
	close(turn)
	fmt.Fprint(w, "4 ")
	if got, want := to.String(), "1 2 3 4 "; got != want {
		t.Errorf("copied %q, want %q", got, want)
	}
	w = &turns{to: &to, turn: turn}
	fmt.Fprint(w, "5")
	if err := w.wait(); err != nil || to.String() != "1 2 3 4 5" {
		t.Errorf("copied %q, error %v", to.String(), err)
	}
}
