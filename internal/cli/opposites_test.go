package cli

import (
	"strings"
	"testing"

	"github.com/bperf/bperf/test/require"
)

// TestCompleteOpposites completes the names that turn switches off.
func TestCompleteOpposites(t *testing.T) {
	require.NoKernel(t)
	for _, tt := range []struct {
		args, want string // what the completion has to contain; empty for nothing
		not        string
	}{
		{"report --no-", "--no-children\tturn off --children\n", "--no-help"},
		{"report --no-inv", "--no-inverted\tturn off --inverted\n", "children"},
		{"report --no-children --no-inv", "--no-inverted\t", "children"},
		{"annotate --no-stdio", "", "stdio"}, // hidden
		{"record --no-buil", "--no-buildid\tdo not", "no-no-buildid"},
		{"stat -a --no", "--no-all-cpus\tturn off --all-cpus\n", "--no-event"},
		{"report --inv", "--inverted\t", "--no-inverted"},
		{"stat -- --no-", "", "--no-aggr"}, // arguments of the command
	} {
		got := runHere(t, append([]string{"__complete"}, strings.Fields(tt.args)...)...)
		if got.status != 0 || !strings.Contains(got.stdout, tt.want) || strings.Contains(got.stdout, tt.not) {
			t.Errorf("%s: %+v, want %s", tt.args, got, tt.want)
		}
	}
	if got := runHere(t, "report", "--no-children=x"); got.status == 0 {
		t.Errorf("%+v", got)
	}
}
