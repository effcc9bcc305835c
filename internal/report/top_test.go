package report

import (
	"slices"
	"strings"
	"testing"

	"github.com/clipperhouse/displaywidth"

	"github.com/bperf/bperf/test/require"
)

func TestFitted(t *testing.T) {
	require.NoKernel(t)
	source := "|OP LOAD|LVL L1 hit|SNP None|TLB L1 or L2 hit|LCK No|BLK N/A"
	cells := [][]string{{"Command", "Data Source"}, {"sh", source}, {"日本", "N/A"}}
	for _, tt := range []struct {
		room int
		want []string
	}{
		{0, []string{"  Command  Data Source", "  sh       " + source, "  日本     N/A"}},
		{-1, []string{"  Command  Data Source", "  sh       " + source, "  日本     N/A"}},
		{80, []string{"  Command  Data Source", "  sh       " + source, "  日本     N/A"}},
		{40, []string{"  Command  Data Source", "  sh       |OP LOAD|LVL L…LCK No|BLK N/A", "  日本     N/A"}},
		{1, []string{"  Command  Data Source", "  sh       |OP LO…K N/A", "  日本     N/A"}},
	} {
		lines := fitted(cells, tt.room)
		for i, line := range lines {
			if tt.room > 24 && displaywidth.String(line) > max(tt.room, 0) {
				t.Errorf("%d columns in %d: %q", displaywidth.String(line), tt.room, line)
			}
			lines[i] = strings.TrimRight(line, " ")
		}
		if !slices.Equal(lines, tt.want) {
			t.Errorf("%d:\n%q, want\n%q", tt.room, lines, tt.want)
		}
	}
	if lines := fitted([][]string{{}, {}}, 10); !slices.Equal(lines, []string{"", ""}) {
		t.Errorf("without keys: %q", lines)
	}
}
