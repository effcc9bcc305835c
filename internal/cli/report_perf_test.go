package cli

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/test/require"
)

// TestReportBesidePerf compares whole reports of small recordings, with options that only decide what is shown.
func TestReportBesidePerf(t *testing.T) {
	perf := require.NewestPerf(t)
	for _, tt := range []struct {
		recordings []string
		args       []string
	}{
		{[]string{"callchain", "group", "zstd", "bpf"}, []string{"--no-children", "-g", "none", "-H"}},
		{[]string{"callchain", "group"}, []string{"--no-children", "-g", "none", "-H", "-s", "pid,dso", "-n", "--show-total-period"}},
		{[]string{"callchain", "group"}, []string{"--no-children", "-g", "none", "-H", "--percent-limit", "5", "-q"}},
		{[]string{"callchain", "group"}, []string{"--no-children", "-g", "none", "-H", "-t", ";", "-c", "ls"}},
		{[]string{"callchain", "group"}, []string{"--no-children", "-g", "none", "-w", "0,3,20,12"}},
		{[]string{"callchain", "group"}, []string{"--no-children", "-g", "none", "-w", "0,5", "-H"}},
		{[]string{"callchain"}, []string{"--no-children", "-g", "none", "-w", "20,0,12", "-n", "-s", "pid,dso"}},
		{[]string{"callchain", "group"}, []string{"--no-children", "-g", "none", "-s", "time,comm", "--time-quantum", "1ms"}},
		{[]string{"callchain", "group"}, []string{"--no-children", "-g", "none", "-s", "time", "--time-quantum", "10us", "--ns"}},
		{[]string{"callchain", "group"}, []string{"--no-children", "-g", "none", "-s", "time", "--time-quantum", "300"}},
		{[]string{"group"}, []string{"--no-children", "-g", "none", "--group-sort-idx", "1"}},
		{[]string{"group"}, []string{"--no-children", "-g", "none", "--group-sort-idx", "7"}},
	} {
		for _, name := range tt.recordings {
			file, err := filepath.Abs(filepath.Join(recordings, name+".data"))
			if err != nil {
				t.Fatal(err)
			}
			args := append([]string{"report", "--stdio", "-i", file}, tt.args...)
			want, got := withoutTip(string(output(t, exec.Command(perf), args...))), string(output(t, bperf(), args...))
			if diff := cmp.Diff(want, got); diff != "" || strings.Count(got, "%") < 2 {
				t.Errorf("%s, %q (-perf +bperf):\n%s", name, tt.args, diff)
			}
		}
	}
}

// withoutTip cuts the tip that ends perf's reports.
func withoutTip(text string) string {
	before, _, _ := strings.Cut(text, "#\n# (Tip:")
	return before
}
