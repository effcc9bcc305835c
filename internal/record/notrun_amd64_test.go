package record

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/bpfprogram"
	"github.com/bperf/bperf/test/require"
)

// TestFilterNotRun samples reads of a byte: by this thread, and by a BPF program that it runs into. For the latter the kernel does not run the filter and
// drops the sample: they are lost. (On arm64 breakpoints at a user's address do not count what the kernel reads.)
func TestFilterNotRun(t *testing.T) {
	require.Breakpoints(t)
	require.Tracefs(t)
	reader := bpfprogram.StartReader(t)
	const own, within = 30, 20
	for filter, kept := range map[string]int{"period == 1": own, "period != 1": 0} {
		signals := make(chan os.Signal, 1)
		cfg := config(t, fmt.Sprintf("mem:%#x/1:rw", reader.Address))
		cfg.Events[0].Events[0].Filter = filter
		cfg.Target, cfg.Signals = target.Spec{TIDs: []int{reader.TID}}, signals
		lost := 0
		cfg.Notify = func(s string) {
			t.Log(s)
			if strings.Contains(s, fmt.Sprintf(": %d samples are lost: the kernel takes none", within)) {
				lost++
			}
		}
		cfg.Verbose = func(s string) {
			t.Log(s)
			if s == "events are enabled" {
				go func() {
					reader.Read(own, within)
					signals <- syscall.SIGINT
				}()
			}
		}
		result, got := run(t, cfg)
		reports := howMany(got, func(l *perfdata.LostSamples) bool { return !l.BPF && l.Samples == within })
		if int(result.Samples) != kept || int(result.Filtered) != own-kept || result.Missed != within || reports != 1 || lost != 1 {
			t.Errorf("%s: %+v, want %d samples, %d filtered and %d missed; %d records of these, %d messages", filter, result, kept, own-kept, within, reports, lost)
		}
	}
}
