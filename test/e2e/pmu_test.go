package e2e

import (
	"math"
	"strings"
	"testing"

	"github.com/bperf/bperf/test/program"
	"github.com/bperf/bperf/test/require"
)

func TestInstructionsOfALoop(t *testing.T) {
	require.ExactPMU(t)
	// QEMU's counters count all CPUs together, so another CPU's work would be counted, too.
	require.OneCPU(t)
	loop := program.Program{Body: program.Spin, Times: 20_000_000}
	rows := stat(t, "-e", "cycles,instructions,cycles:u,{instructions:u,instructions:k,instructions}", "--", loop.Write(t))
	want := float64(loop.Instructions())

	counted := map[string]float64{}
	for _, r := range rows {
		counted[r.Event] = r.Value
		if r.Percent != 100 {
			t.Errorf("%s was counted %v %% of the time: six events fit in seven counters", r.Event, r.Percent)
		}
	}
	for _, event := range []string{"instructions:u", "cycles:u"} {
		if got := counted[event]; got != want {
			t.Errorf("%s: got %.0f, want %.0f", event, got, want)
		}
	}
	if sum := counted["instructions:u"] + counted["instructions:k"]; counted["instructions"] != sum {
		t.Errorf("instructions: got %.0f, but :u and :k add up to %.0f", counted["instructions"], sum)
	}
	// The kernel adds a part, mostly at the timer tick.
	for _, event := range []string{"instructions", "cycles"} {
		if got := counted[event]; got < want || got > 1.01*want {
			t.Errorf("%s: got %.0f, want %.0f and at most one percent more", event, got, want)
		}
	}
}

// TestMultiplexing counts more events than there are counters, long enough for the kernel to rotate them about 100 times.
func TestMultiplexing(t *testing.T) {
	require.ExactPMU(t)
	require.OneCPU(t)
	loop := program.Program{Body: program.Spin, Times: 200_000_000}
	command := loop.Write(t)
	tests := []struct {
		name     string
		events   string
		counters float64 // number of counters that can count these events
	}{
		{"only cycles can be on the cycle counter", repeat("instructions:u", 10), 6},
		{"cycles can be on any", repeat("cycles:u", 10), 7},
		{"both", repeat("cycles:u,instructions:u", 5), 7},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rows := stat(t, "-e", tt.events, "--", command)
			if len(rows) != 10 {
				t.Fatalf("got %d rows, want 10", len(rows))
			}
			var sum float64
			for _, r := range rows {
				sum += r.Percent
				if share := 10 * tt.counters; math.Abs(r.Percent-share) > 5 {
					t.Errorf("%s ran for %v %% of the time, want about %v", r.Event, r.Percent, share)
				}
				if want := float64(loop.Instructions()); math.Abs(r.Value/want-1) > 0.05 {
					t.Errorf("%s: scaled to %.0f, want about %.0f", r.Event, r.Value, want)
				}
			}
			if want := 100 * tt.counters; math.Abs(sum-want) > 5 {
				t.Errorf("the percentages add up to %v, want about %v", sum, want)
			}
		})
	}
	t.Run("marked in the text", func(t *testing.T) {
		text := run(t, "stat", "-e", repeat("instructions:u", 10), "--", command)
		if got := strings.Count(text, "%)"); got != 10 {
			t.Errorf("%d of 10 lines have a percentage:\n%s", got, text)
		}
	})
}

func repeat(events string, times int) string {
	return strings.TrimSuffix(strings.Repeat(events+",", times), ",")
}
