package record

import (
	"testing"

	"github.com/bperf/bperf/test/program"
	"github.com/bperf/bperf/test/require"
)

// TestInstructions samples a program with a known number of instructions: one sample per period.
func TestInstructions(t *testing.T) {
	require.ExactPMU(t)
	require.OneCPU(t)
	const period = 100_000
	spin := program.Program{Body: program.Spin, Times: 10_000_000}
	cfg := config(t, "instructions:u,cycles:P")
	cfg.Period, cfg.Overrides = period, true
	cfg.Command = []string{spin.Write(t)}
	_, got := run(t, cfg)
	want := int(spin.Instructions() / period)
	if n := got.samples["instructions:u"]; n < want-1 || n > want {
		t.Errorf("%d samples of instructions, want %d", n, want)
	}
	if n := got.samples["cycles:P"]; n < want-1 {
		t.Errorf("%d samples of cycles, want %d and those of the kernel", n, want)
	}
}

// TestDefaultFrequency lets the kernel find the period.
func TestDefaultFrequency(t *testing.T) {
	require.PMU(t)
	cfg := config(t, "cycles:P")
	cfg.Period, cfg.Frequency, cfg.Callchain = 0, 1000, CallchainFP
	cfg.Command = []string{program.Program{Body: program.Spin, Times: 20_000_000}.Write(t)}
	_, got := run(t, cfg)
	if got.samples["cycles:P"] == 0 {
		t.Errorf("samples %v", got.samples)
	}
}
