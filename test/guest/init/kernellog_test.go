package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestLastLines(t *testing.T) {
	var all, last []string
	for i := range kernelLines + 5 {
		all = append(all, fmt.Sprintf("<%d>[    1.%06d] line <6> %d", i, i, i))
		if i >= 5 {
			last = append(last, fmt.Sprintf("[    1.%06d] line <6> %d", i, i))
		}
	}
	for _, tt := range []struct {
		name, log string
		want      []string
	}{
		{"nothing", "", nil},
		{"a line", "<3>[    9.1] Out of memory: Killed process 70 (sample.test)\n", []string{"[    9.1] Out of memory: Killed process 70 (sample.test)"}},
		{"many lines", strings.Join(all, "\n") + "\n", last},
	} {
		if got := lastLines(tt.log); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
