package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/bperf/bperf/test/require"
)

// TestDumpRecords has report and annotate print all records, and then their number.
func TestDumpRecords(t *testing.T) {
	require.NoKernel(t)
	file := filepath.Join(recordings, "group.data")
	for _, args := range [][]string{{"report", "-q", "-D", "-i", file}, {"annotate", "--dump-raw-trace", "-i", file}} {
		got := runHere(t, args...)
		for _, want := range []string{
			"\n0 0x4e8 [0x8]: PERF_RECORD_FINISHED_INIT: unhandled!\n",
			": 13667/13667: 0x7f463159c645 period: 500000 addr: 0\n... sample_read:\n",
			"\n ... thread: ls:13667\n ...... dso: /usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2\n",
			"\nAggregated stats:\n               TOTAL events:         26\n",
			"task-clock stats:\n              SAMPLE events:          3\n",
		} {
			if got.status != 0 || !strings.Contains(got.stdout, want) {
				t.Errorf("%v: status %d, %s; there is no %q in\n%.2000s", args, got.status, got.stderr, want, got.stdout)
			}
		}
	}
	testOutput(t, "report", "-q", "-D", "-i", file)
}
