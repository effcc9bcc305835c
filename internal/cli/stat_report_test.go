package cli

import (
	"strings"
	"testing"

	"github.com/bperf/bperf/test/require"
)

// TestStatReport reads a recording with options before and after "report".
func TestStatReport(t *testing.T) {
	require.NoKernel(t)
	const counts = "../count/recorded/testdata/"
	for _, tt := range []struct {
		args   string
		status int
		stderr string // part of it
	}{
		{"stat report -i " + counts + "7-core.data", 0, "S0-D0-C1              1                835      page-faults"},
		{"stat report -A -i " + counts + "7-core.data", 0, "CPU1                  835      page-faults"},
		{"stat -x, report --input " + counts + "7-core.data", 0, "S0-D0-C1,1,835,,page-faults,"},
		{"stat -jA report -i " + counts + "7-core.data", 0, `{"cpu" : "1", "counter-value" : "835.000000", `},
		{"stat --per-sock report -x ; -i " + counts + "7-core.data", 0, "S0;2;1281;;page-faults;"},
		{"stat report --per-cache=L1 -i " + counts + "7-core.data", 0, "S0-D0-L1-ID1"},
		{"stat report -i " + counts + "6-interval.data", 0, "     0.116307875                501      page-faults"},
		{"stat report --quiet -i " + counts + "7-core.data", 0, ""},
		{"stat report -i no-such-file", statusFailed, "no-such-file"},
		{"stat report -i ../../perfdata/testdata/callchain.data", statusFailed, "Error: the recording has no counts: "},
		{"stat report --per-core -i " + counts + "7-pipe.data", statusFailed, "which CPUs belong together"},
		{"stat report --per-core -A", statusBadCombination, "give only one"},
		{"stat report -x, -j", statusBadCombination, "-x and -j"},
		{"stat report --per-cache=five", statusBadOption, "--per-cache=five: "},
		{"stat report -e cycles", statusBadOption, "See bperf stat report --help"},
	} {
		if got := runHere(t, strings.Fields(tt.args)...); got.status != tt.status || !strings.Contains(got.stderr, tt.stderr) || got.stdout != "" {
			t.Errorf("%s: %+v, want status %d and %q", tt.args, got, tt.status, tt.stderr)
		}
	}
	if got := runHere(t, "script", "-i", counts+"6-cpu.data"); !strings.Contains(got.stdout, "\n  1       -1            2449       157811392       157811392       157759792 page-faults:u\n") {
		t.Errorf("script: %+v", got)
	}
	if got := runHere(t, "evlist", "-i", counts+"6-cpu.data"); got.stdout != "duration_time\ntask-clock\npage-faults:u\n" {
		t.Errorf("evlist: %+v", got)
	}
}
