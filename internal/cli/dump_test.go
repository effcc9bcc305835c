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

// TestDiffDumpsRecords has diff print the records of both recordings before the rows.
func TestDiffDumpsRecords(t *testing.T) {
	require.NoKernel(t)
	old, file := filepath.Join(recordings, "callchain.data"), filepath.Join(recordings, "group.data")
	got := runHere(t, "diff", "-D", old, file)
	first, second := strings.Index(got.stdout, "@"+old+" [0x50]: event: 69\n"), strings.Index(got.stdout, "@"+file+" [0xd0]: event: 69\n")
	if rows := strings.Index(got.stdout, "# Event 'cpu-clock'\n"); got.status != 0 || first < 0 || second < first || rows < second {
		t.Errorf("status %d, %s; parts at %d, %d and %d of\n%.2000s", got.status, got.stderr, first, second, rows, got.stdout)
	}
	if got := runHere(t, "diff", "-D", old, "-"); got.status != statusBadCombination || !strings.Contains(got.stderr, "-D reads each recording twice") {
		t.Errorf("of standard input: %+v", got)
	}
}
