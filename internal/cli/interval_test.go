package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/bperf/bperf/test/require"
)

func TestIntervalFlags(t *testing.T) {
	for text, want := range map[string]string{"1000": "1000", "0x10": "16", "-1": "-1", "1s": "1000", "500ms": "500", "1.5s": "1500", "1m": "60000",
		"": "error", "1x": "error", "1us": "error", "1e400": "error"} {
		m := millisecondsFlag(0)
		if got := m.Set(text); got == nil && m.String() != want || got != nil && want != "error" {
			t.Errorf("%q: %s, %v, want %s", text, &m, got, want)
		}
	}
	for text, want := range map[string]string{"1": "1", "0.5": "0.5", "-1": "-1", "1s": "1", "500ms": "0.5", "2m": "120", "": "error", "1x": "error", "s": "error"} {
		s := secondsFlag(0)
		if got := s.Set(text); got == nil && s.String() != want || got != nil && want != "error" {
			t.Errorf("%q: %s, %v, want %s", text, &s, got, want)
		}
	}
}

// TestIntervals runs commands with intervals in units, and asks nodes in numbers.
func TestIntervals(t *testing.T) {
	require.AnyArch(t)
	require.Root(t)
	got := run(t, bperf("stat", "-I500ms", "--interval-count", "1", "-x,", "-e", "cpu-clock", "sleep", "60"))
	if lines := strings.Split(strings.TrimSpace(got.stderr), "\n"); got.status != 0 || len(lines) != 1 || !strings.Contains(lines[0], ",cpu-clock,") {
		t.Errorf("%+v", got)
	}
	if got := run(t, bperf("stat", "-I", "9ms", "true")); got.status != statusBadCombination || !strings.Contains(got.stderr, "-I 9: the interval must be at least 10 ms") {
		t.Errorf("%+v", got)
	}
	if got := run(t, bperf("stat", "-I", "1x", "true")); got.status != statusBadOption || !strings.Contains(got.stderr, `"1x" is neither a whole number of milliseconds nor a time`) {
		t.Errorf("%+v", got)
	}
	for _, args := range [][]string{{"top", "--once", "--delay", "0.1s"}, {"counters", "--interval", "10ms"}, {"prog", "list", "--interval", "10ms"},
		{"prog", "stats", "-I", "10ms", "--count", "1"}} {
		if got := run(t, bperf(args...)); got.status != 0 {
			t.Errorf("%v: %+v", args, got)
		}
	}
	root := newRootCommand("bperf", nil)
	args, err := canonical(root, []string{"stat", "-I", "2s", "-a"})
	if err != nil {
		t.Fatal(err)
	}
	cmd, flags, err := root.Find(args)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.ParseFlags(flags); err != nil {
		t.Fatal(err)
	}
	if r, err := requestOf(cmd, args, nil); err != nil || !slices.Contains(r.Args, "--interval-print=2000") {
		t.Errorf("asks for %q, %v", r.Args, err)
	}
}
