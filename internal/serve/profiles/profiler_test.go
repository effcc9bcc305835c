package profiles

import (
	"slices"
	"testing"
	"time"

	"github.com/bperf/bperf/internal/profile"
)

// TestKept adds windows and compares the times at which those that are kept begin.
func TestKept(t *testing.T) {
	window := profile.New(0).Bytes()
	for _, test := range []struct {
		name   string
		keep   uint64
		starts []time.Duration // of all windows
		want   []time.Duration // of the kept ones
	}{
		{"one", 1, []time.Duration{0}, []time.Duration{0}},
		{"less than five minutes", DefaultKeep, []time.Duration{0, time.Minute, 5*time.Minute - 1}, []time.Duration{0, time.Minute, 5*time.Minute - 1}},
		{"five minutes and more", DefaultKeep, []time.Duration{0, time.Minute, 2 * time.Minute, 7 * time.Minute, 8 * time.Minute},
			[]time.Duration{2 * time.Minute, 7 * time.Minute, 8 * time.Minute}},
		{"long windows", DefaultKeep, []time.Duration{0, time.Hour, 2 * time.Hour}, []time.Duration{time.Hour, 2 * time.Hour}},
		{"too large", 2 * window, []time.Duration{0, time.Minute, 2 * time.Minute}, []time.Duration{time.Minute, 2 * time.Minute}},
		{"a clock that goes back", DefaultKeep, []time.Duration{time.Hour, 0, time.Minute, 6 * time.Minute}, []time.Duration{time.Minute, 6 * time.Minute}},
	} {
		p, err := New(Config{Keep: test.keep})
		check(t, err)
		for _, start := range test.starts {
			p.add(&Window{Start: time.Unix(1e9, 0).Add(start), Profile: profile.New(0)})
		}
		var got []time.Duration
		for _, w := range p.Windows() {
			got = append(got, w.Start.Sub(time.Unix(1e9, 0)))
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: windows of %v are kept, want %v", test.name, got, test.want)
		}
	}
}
