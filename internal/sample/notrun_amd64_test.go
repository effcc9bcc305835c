package sample

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/test/bpfprogram"
	"github.com/bperf/bperf/test/require"
)

// TestNotRun samples reads of a byte by a thread, and by a BPF program that runs on that thread. For the latter the kernel does not run the program that
// counts, so these samples are lost. (On arm64, breakpoints at a user address do not count reads by the kernel.)
func TestNotRun(t *testing.T) {
	require.Breakpoints(t)
	require.Tracefs(t)
	reader := bpfprogram.StartReader(t)
	const own, within = 30, 20
	cfg := config(t, fmt.Sprintf("mem:%#x/1:rw", reader.Address))
	cfg.Record.Target = target.Spec{TIDs: []int{reader.TID}}
	r := whileEnabled(t, cfg, func() error {
		reader.Read(own, within)
		return nil
	})
	if n := r.Totals; n.Samples != own || n.NotRun != within || n.Missed != within || r.Profile.Losses.Samples != within ||
		!strings.Contains(n.String(), fmt.Sprintf("%d samples, %d lost", own, within)) {
		t.Errorf("%+v, want %d samples and %d lost: %s", n, own, within, n)
	}
}
